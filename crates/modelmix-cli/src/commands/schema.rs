//! `modelmix schema`: the JSON Schema of a document.

use crate::args::SchemaArgs;
use crate::error::Result;
use crate::schemas;
use crate::terminal::write_out;

pub(crate) fn run(args: &SchemaArgs) -> Result<()> {
    write_out(&(schemas::schema(args.command)? + "\n"))
}
