//! Journals: events as lines with chained checksums, truncated and damaged.

use modelmix::Error;
use modelmix::session::{Event, Header, JournalReader, JournalWriter};

/// After a failed write nothing more is written: a line after a truncated one would be lost with it.
#[test]
fn a_journal_ends_with_a_failed_write() {
    struct Disk(Vec<u8>, usize);
    impl std::io::Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let room = bytes.len().min(self.1 - self.0.len());
            self.0.extend_from_slice(&bytes[..room]);
            if room == 0 { Err(std::io::Error::other("no space left on device")) } else { Ok(room) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let event = |pull| Event::<modelmix::policy::AnyPolicy>::Abandoned { pull };
    let mut writer = JournalWriter::start(Disk(Vec::new(), 150), &Header::new("a run")).unwrap();
    let written = (0..9).position(|pull| writer.append(&event(pull), None).is_err()).unwrap();
    writer.get_mut().1 = 10_000;
    let error = writer.append(&event(99), None).unwrap_err().to_string();
    assert!(error.contains("an earlier line is incomplete"), "{error}");
    let reader: JournalReader<_> = JournalReader::new(writer.get_mut().0.as_slice()).unwrap();
    let read = reader.collect::<Result<Vec<_>, _>>().unwrap().len();
    assert!(written > 0 && read == written);
}

fn journal(notes: &[&str]) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut writer = JournalWriter::start(&mut lines, &Header::new(r#"{"seed":5}"#)).unwrap();
    for (pull, note) in notes.iter().enumerate() {
        writer.append(&Event::<modelmix::policy::AnyPolicy>::Abandoned { pull: pull as u64 }, Some(note)).unwrap();
    }
    lines
}

#[test]
fn journals_drop_a_torn_line_and_name_a_damaged_one() {
    let whole = journal(&["one", "two \"quoted\"\n", "three"]);
    let read = |bytes: &[u8]| -> Result<(Vec<String>, u64, u32), Error> {
        let mut reader: JournalReader<_> = JournalReader::new(bytes)?;
        let notes = reader.by_ref().map(|entry| entry.map(|entry| entry.note.unwrap())).collect::<Result<_, _>>()?;
        Ok((notes, reader.whole_lines_len(), reader.checksum()))
    };
    let (notes, length, _) = read(&whole).unwrap();
    assert_eq!((notes.join(" "), length), ("one two \"quoted\"\n three".into(), whole.len() as u64));
    let starts: Vec<usize> = std::iter::once(0)
        .chain(whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1))
        .collect();
    for cut in 0..whole.len() {
        // Truncated anywhere, all complete lines before are read, and the journal can be continued as if nothing had
        // happened.
        let lines = starts.iter().filter(|&&start| start <= cut).count() - 1;
        let (notes, length, checksum) = read(&whole[..cut]).unwrap();
        assert_eq!((notes.len(), length as usize), (lines.saturating_sub(1), starts[lines]), "cut at {cut}");
        if lines > 0 {
            let mut again = whole[..length as usize].to_vec();
            let mut writer = JournalWriter::resume(&mut again, checksum);
            for (pull, note) in ["one", "two \"quoted\"\n", "three"].iter().enumerate().skip(lines - 1) {
                let event = Event::<modelmix::policy::AnyPolicy>::Abandoned { pull: pull as u64 };
                writer.append(&event, Some(note)).unwrap();
            }
            assert_eq!(again, whole, "cut at {cut}");
        }
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        let line = starts.iter().filter(|&&start| start <= at).count();
        match read(&damaged) {
            // If a line break is damaged, two lines are joined, and the last one may then look truncated.
            Ok((notes, ..)) => assert!(whole[at] == b'\n' && notes.len() < 3, "byte {at}"),
            Err(error) => {
                let text = error.to_string();
                let named = text.contains(&format!("line {line} "))
                    || (line == 1 && (text.contains("first line") || text.contains("form")))
                    || whole[at] == b'\n';
                assert!(named, "byte {at} of line {line}: {text}");
            }
        }
    }
    // Missing or swapped lines do not match the checksums.
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    assert!(read(&[lines[0], lines[2], lines[3]].concat()).unwrap_err().to_string().contains("line 2 "));
}

#[test]
fn journals_of_another_form_are_refused_with_the_release_that_wrote_them() {
    let read = |text: &str| {
        let result: Result<JournalReader<_>, Error> = JournalReader::new(text.as_bytes());
        result.map(|_| ()).unwrap_err().to_string()
    };
    let old = "{\"checkpoint\":1,\"modelmix\":\"0.1.0\",\"arms\":[\"a\"],\"crc\":12}\n";
    let text = read(old);
    assert!(text.contains("modelmix 0.1.0") && text.contains("format version 1"), "{text}");
    let text = read("{\"journal\":7,\"modelmix\":\"0.9.0\",\"run\":\"\",\"crc\":12}\n");
    assert!(text.contains("modelmix 0.9.0") && text.contains("format version 7"), "{text}");
    assert!(read("name,price\n1,2\n").contains("is not a journal"));
    assert!(read("{\"a\":1}\n").contains("is not a journal"));
    let empty: JournalReader<_> = JournalReader::new(&b"{\"jour"[..]).unwrap();
    assert!(empty.header().is_none());
}
