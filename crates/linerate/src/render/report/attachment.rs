//! Records within a report: JSON Lines, gzip, base64, behind an ordinary link; and what the report says it was made from.
//! A report may come from anybody: what is taken out of it is bounded.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use linerate_results::record::Record;
use sha2::{Digest, Sha256};

use super::{FORMAT, META, Origin};
use crate::render::json;

/// What a data URL of ours begins with.
const URL: &str = "data:application/gzip;base64,";
/// More than ten thousand records of any kind.
const MOST_OCTETS: u64 = 1 << 30;

/// A record as a line, without its end: as it is attached, and as its digest is taken.
pub(super) fn line(record: &Record) -> String {
    json::printable_line(&record.to_json())
}

/// The SHA-256 of a line, as sha256sum(1) prints it.
pub(super) fn digest(line: &str) -> String {
    Sha256::digest(line.as_bytes()).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Records as they are attached.
pub(crate) fn lines(records: &[Record]) -> String {
    records.iter().map(|record| line(record) + "\n").collect()
}

pub(super) fn url(records: &[Record]) -> String {
    // Neither a time nor a name goes into the header: the same records are the same octets.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    // A vector takes all that is written.
    let _ = gzip.write_all(lines(records).as_bytes());
    format!("{URL}{}", STANDARD.encode(gzip.finish().unwrap_or_default()))
}

/// The records that a report carries, as JSON Lines; absent where it carries none.
pub(crate) fn attached(html: &str) -> Result<Option<String>> {
    let Some((_, link)) = html.split_once(r#"id="records-attached""#) else { return Ok(None) };
    let (_, octets) = link.split_once(URL).context("the report's link to its records leads nowhere")?;
    let octets = octets.split_once('"').map_or(octets, |(octets, _)| octets);
    let packed = STANDARD.decode(octets).context("the records in the report are not whole: base64")?;
    let mut text = String::new();
    let mut gzip = GzDecoder::new(packed.as_slice()).take(MOST_OCTETS + 1);
    gzip.read_to_string(&mut text).context("the records in the report are not whole: gzip")?;
    if text.len() as u64 > MOST_OCTETS {
        bail!("the records in the report are larger than 1 GiB; make it of fewer campaigns");
    }
    Ok(Some(text))
}

/// Records as they are read from an attachment, one by one: ten thousand as a text take half a gigabyte.
pub(crate) fn as_attached(records: Vec<Record>) -> Result<Vec<Record>> {
    let read = |record: Record| serde_json::from_str(&line(&record)).context("a record is not what it says it is");
    records.into_iter().map(read).collect()
}

/// The records of JSON Lines.
pub(crate) fn records_of(text: &str) -> Result<Vec<Record>> {
    let read = |(at, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("line {} of the attached records is no record", at + 1))
    };
    text.lines().enumerate().map(read).collect()
}

/// What a report was made from.
pub(crate) fn read_back(html: &str) -> Result<Origin> {
    let none = "this is no report of linerate's in HTML; `linerate report --html -o FILE` makes one";
    let (_, content) = html.split_once(&format!(r#"<meta name="{META}" content=""#)).context(none)?;
    let (content, _) = content.split_once('"').context(none)?;
    let content = content.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let origin: Origin = serde_json::from_str(&content).context(none)?;
    if origin.format != FORMAT {
        bail!(
            "the report is of another format, {}; this linerate reads {FORMAT}",
            json::printable_line(&origin.format)
        );
    }
    Ok(origin)
}
