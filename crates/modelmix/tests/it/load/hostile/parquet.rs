//! Forged Parquet files, written here with arbitrary claims.

use super::{folder, read, refused};

/// A value in Thrift's compact protocol.
#[derive(Clone)]
enum Thrift {
    Number(i64),
    Text(&'static str),
    List(Vec<Thrift>),
    /// A list that claims this length.
    Claimed(u64, Vec<Thrift>),
    Fields(Vec<(u8, Thrift)>),
}

use Thrift::{Claimed, Fields, List, Number, Text};

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

impl Thrift {
    fn kind(&self) -> u8 {
        match self {
            Number(_) => 6,
            Text(_) => 8,
            List(_) | Claimed(..) => 9,
            Fields(_) => 12,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Number(value) => varint((value << 1 ^ value >> 63) as u64, bytes),
            Text(text) => {
                varint(text.len() as u64, bytes);
                bytes.extend(text.as_bytes());
            }
            List(elements) => Claimed(elements.len() as u64, elements.clone()).write(bytes),
            Claimed(length, elements) => {
                bytes.push(0xf0 | elements.first().map_or(12, Thrift::kind));
                varint(*length, bytes);
                elements.iter().for_each(|element| element.write(bytes));
            }
            Fields(fields) => {
                let mut last = 0;
                for (id, value) in fields {
                    bytes.push((id - last) << 4 | value.kind());
                    value.write(bytes);
                    last = *id;
                }
                bytes.push(0);
            }
        }
    }
}

fn root(children: i64) -> Thrift {
    Fields(vec![(4, Text("schema")), (5, Number(children))])
}

/// A column of 32-bit floats, required (0), optional (1) or repeated (2).
fn leaf(repetition: i64) -> Thrift {
    Fields(vec![(1, Number(4)), (3, Number(repetition)), (4, Text("a"))])
}

fn group(rows: i64, values: i64, start: i64, length: i64) -> Thrift {
    let column = vec![(1, Number(4)), (4, Number(0)), (5, Number(values)), (7, Number(length)), (9, Number(start))];
    Fields(vec![(1, List(vec![Fields(vec![(3, Fields(column))])])), (3, Number(rows))])
}

fn data_page(values: i64, encoding: i64, content: &[u8]) -> Vec<u8> {
    sized_page((content.len() as i64, content.len() as i64), values, encoding, content)
}

fn sized_page((unpacked, packed): (i64, i64), values: i64, encoding: i64, content: &[u8]) -> Vec<u8> {
    let described = Fields(vec![(1, Number(values)), (2, Number(encoding)), (3, Number(3)), (4, Number(3))]);
    let mut bytes = Vec::new();
    Fields(vec![(1, Number(0)), (2, Number(unpacked)), (3, Number(packed)), (5, described)]).write(&mut bytes);
    bytes.extend(content);
    bytes
}

fn dictionary(entries: i64, content: &[u8]) -> Vec<u8> {
    let size = content.len() as i64;
    let described = Fields(vec![(1, Number(entries)), (2, Number(0))]);
    let mut bytes = Vec::new();
    Fields(vec![(1, Number(2)), (2, Number(size)), (3, Number(size)), (7, described)]).write(&mut bytes);
    bytes.extend(content);
    bytes
}

fn file(pages: &[u8], schema: Thrift, groups: Thrift) -> Vec<u8> {
    let mut footer = Vec::new();
    Fields(vec![(1, Number(2)), (2, schema), (3, Number(0)), (4, groups)]).write(&mut footer);
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1", pages, &footer, &length, b"PAR1"].concat()
}

/// A file of one column and one row group.
fn column(repetition: i64, (rows, values): (i64, i64), pages: &[u8]) -> Vec<u8> {
    let groups = List(vec![group(rows, values, 4, pages.len() as i64)]);
    file(pages, List(vec![root(1), leaf(repetition)]), groups)
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A run of `count` times `value` at a width of 1 to 8 bits, prefixed with its length.
fn levels(count: u64, value: u8) -> Vec<u8> {
    let mut run = Vec::new();
    varint(count << 1, &mut run);
    run.push(value);
    [(run.len() as u32).to_le_bytes().as_slice(), &run].concat()
}

#[test]
fn the_forger_can_also_write_a_good_file() {
    let folder = folder("good-parquet");
    read(&folder, "parquet", &column(0, (3, 3), &data_page(3, 0, &floats(&[1.0, 2.0, 3.0])))).unwrap();
    let optional = [levels(3, 1), floats(&[1.0, 2.0, 3.0])].concat();
    read(&folder, "parquet", &column(1, (3, 3), &data_page(3, 0, &optional))).unwrap();
    // A page of lists in which each value starts a new list, in a dictionary of one entry.
    let repeated = [levels(4, 0), levels(4, 1), vec![0]].concat();
    let pages = [dictionary(1, &floats(&[1.5])), data_page(4, 8, &repeated)].concat();
    read(&folder, "parquet", &column(2, (4, 4), &pages)).unwrap();
}

/// Statistics of a page may have whole texts; a header of more than a mebibyte is no header.
#[test]
fn headers_of_pages_may_be_long() {
    let folder = folder("long-headers");
    for (length, is_read) in [(10_000, true), (1 << 14, true), (500_000, true), (1 << 20, false), (3 << 20, false)] {
        let described = vec![(1, Number(3)), (2, Number(0)), (3, Number(3)), (4, Number(3))];
        let statistics = Fields(vec![(5, Text("z".repeat(length).leak()))]);
        let described = Fields([described, vec![(5, statistics)]].concat());
        let mut page = Vec::new();
        Fields(vec![(1, Number(0)), (2, Number(12)), (3, Number(12)), (5, described)]).write(&mut page);
        page.extend(floats(&[1.0, 2.0, 3.0]));
        let result = read(&folder, "parquet", &column(0, (3, 3), &page));
        assert_eq!(result.is_ok(), is_read, "{length}: {result:?}");
    }
}

#[test]
fn forged_footers_are_refused() {
    let folder = folder("footer");
    let page = data_page(3, 0, &floats(&[1.0, 2.0, 3.0]));
    let good = || List(vec![group(3, 3, 4, page.len() as i64)]);
    let flat = || List(vec![root(1), leaf(0)]);
    for (schema, groups, words) in [
        (List(vec![root(i32::MAX.into()), leaf(0)]), good(), "lacks nodes"),
        (List(vec![root(i64::MAX), leaf(0)]), good(), "lacks nodes"),
        (List(vec![root(-1), leaf(0)]), good(), "negative"),
        (List(vec![root(1), leaf(0), leaf(0)]), good(), "belong to no group"),
        (List(vec![root(2), leaf(0), leaf(0)]), good(), "every column"),
        (List(vec![root(0)]), List(vec![]), "no columns"),
        (List(vec![]), List(vec![]), "no schema"),
        (List(vec![Fields(vec![(3, Number(1)), (5, Number(1))]); 60_000]), good(), "nests too deeply"),
        (Claimed(i32::MAX as u64, vec![root(1)]), good(), "list is too long"),
        (Claimed(u64::MAX, vec![root(1)]), good(), "list is too long"),
        (Claimed(60_000, vec![root(1)]), good(), "footer"),
        (Number(3), good(), "not a list"),
        (flat(), Claimed(u64::MAX, vec![]), "list is too long"),
        (flat(), List(vec![group(3, 3, 4, i64::MAX)]), "outside the file"),
        (flat(), List(vec![group(3, 3, i64::MAX, i64::MAX)]), "outside the file"),
        (flat(), List(vec![group(3, 3, 0, 10)]), "outside the file"),
        (flat(), List(vec![group(3, 3, -4, 10)]), "negative"),
        (flat(), List(vec![group(3, 3, 4, page.len() as i64 + 1)]), "outside the file"),
        (flat(), List(vec![group(2, 3, 4, page.len() as i64)]), "rows that it claims"),
        (flat(), List(vec![group(i64::MAX, 3, 4, page.len() as i64)]), "rows that it claims"),
        (flat(), List(vec![group(3, i64::MAX, 4, page.len() as i64)]), "fewer values than the footer"),
        (flat(), List(vec![group(3, 2, 4, page.len() as i64)]), "more values than the footer"),
        (flat(), List(vec![group(0, 0, 4, 0)]), "no rows"),
        (flat(), List(vec![]), "no rows"),
    ] {
        refused(read(&folder, "parquet", &file(&page, schema, groups)), &[words]);
    }
    for length in [u32::MAX, 1 << 30, 100, 13] {
        let bytes = [b"PAR1".as_slice(), &length.to_le_bytes(), b"PAR1"].concat();
        refused(read(&folder, "parquet", &bytes), &[&format!("claims {length} bytes")]);
    }
    refused(read(&folder, "parquet", b"PAR1\0\0\0\0PARE"), &["encrypted"]);
    refused(read(&folder, "parquet", b"this is not a table"), &["not a Parquet file", "magic number"]);
    refused(read(&folder, "parquet", b"PAR1PAR1"), &["8 bytes are fewer"]);
}

#[test]
fn forged_pages_are_refused() {
    let folder = folder("pages");
    let three = floats(&[1.0, 2.0, 3.0]);
    let most = i64::from(i32::MAX);
    for (pages, words) in [
        (sized_page((12, 13), 3, 0, &three), "beyond its column"),
        (sized_page((12, most), 3, 0, &three), "beyond its column"),
        (sized_page((12, -1), 3, 0, &three), "negative"),
        (sized_page((most, 12), 3, 0, &three), "more than 128 MiB"),
        (sized_page((13, 12), 3, 0, &three), "size it claims"),
        (data_page(3, 0, &three[..11]), "fewer values than it claims"),
        (data_page(3, 9, &three[..11]), "fewer values than it claims"),
        (data_page(3, 5, &three), "not PLAIN"),
        (data_page(3, 8, &[0]), "dictionary is missing"),
        ([dictionary(1, &three[..4]), data_page(3, 8, &[33, 0])].concat(), "too widely"),
        ([dictionary(1, &three[..4]), data_page(3, 8, &[1, 6, 1])].concat(), "not in its dictionary"),
        ([dictionary(2, &three), data_page(3, 8, &[0])].concat(), "size it claims"),
        ([data_page(3, 0, &three), dictionary(3, &three)].concat(), "out of place"),
        (vec![0; 40], "contradicts itself"),
        (vec![0x6c; 40], "nests too deeply"),
        (vec![0xff; 40], "type is not known"),
    ] {
        refused(read(&folder, "parquet", &column(0, (3, 3), &pages)), &["file.parquet", words]);
    }
    for (content, words) in [
        ([levels(3, 0), levels(3, 1), three[..8].to_vec()].concat(), "fewer values than it claims"),
        ([levels(3, 1), levels(3, 1), three.clone()].concat(), "begins within a row"),
        ([levels(2, 0), levels(3, 1), three.clone()].concat(), "fewer levels or indices"),
        ([levels(3, 0), vec![255; 4], three.clone()].concat(), "extend beyond"),
        ([levels(3, 0), levels(3, 0), three].concat(), "row 0 (counted from 0) is an empty list"),
    ] {
        refused(read(&folder, "parquet", &column(2, (3, 3), &data_page(3, 0, &content))), &[words]);
    }
}

#[test]
fn runs_that_would_fill_the_memory_are_refused() {
    let folder = folder("runs");
    for values in [i64::from(i32::MAX), 1 << 40, i64::MAX] {
        // One list with the largest number of values that can be claimed, each of them the dictionary's only entry.
        let content = [levels(values as u64 / 2, 1), levels(values as u64 / 2, 1), vec![0]].concat();
        let pages = [dictionary(1, &floats(&[1.5])), data_page(values, 8, &content)].concat();
        refused(read(&folder, "parquet", &column(2, (1, values), &pages)), &["than a file of its size would hold"]);
        let pages = [dictionary(1, &floats(&[1.5])), data_page(values, 8, &[0])].concat();
        refused(
            read(&folder, "parquet", &column(0, (values, values), &pages)),
            &["than a file of its size would hold"],
        );
    }
    // The same few bytes, claimed by thousands of row groups.
    let rows = 1 << 23;
    let pages = [dictionary(1, &floats(&[1.5])), data_page(rows, 8, &[0])].concat();
    let groups = List(vec![group(rows, rows, 4, pages.len() as i64); 100]);
    let forged = file(&pages, List(vec![root(1), leaf(0)]), groups);
    refused(read(&folder, "parquet", &forged), &["than a file of its size would hold"]);
}
