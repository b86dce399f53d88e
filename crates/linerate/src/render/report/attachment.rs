//! Records within a report: JSON Lines, gzip, base64, behind an ordinary link; and what the report says it was made from.
//! A report may come from anybody: what is taken out of it is bounded.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;

use anyhow::{Context, Result, bail};
use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use base64::read::DecoderReader;
use base64::write::EncoderStringWriter;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use linerate_results::record::Record;

use super::{FORMAT, META, Origin};
use crate::render::json;

/// What a data URL of ours begins with.
const URL: &str = "data:application/gzip;base64,";
/// More than ten thousand records of any kind.
const MOST_OCTETS: u64 = 1 << 30;
/// More than a record of ten thousand time slices has.
const LONGEST_LINE: u64 = 64 << 20;

/// A record as a line, without its end: as it is attached, and as its digest is taken.
pub(crate) fn line(record: &Record) -> String {
    json::printable_line(&record.to_json())
}

/// The same of a record whose text is at hand, as a store has it: to write it once more would only cost time.
pub(crate) fn line_of(record: &Record, text: String) -> String {
    if json::is_line(&text) { text } else { line(record) }
}

/// Lines on their way into a report.
pub(super) struct Attachment(GzEncoder<EncoderStringWriter<'static, GeneralPurpose, String>>);

impl Default for Attachment {
    fn default() -> Attachment {
        // Neither a time nor a name goes into the header: the same records are the same octets.
        let base64 = EncoderStringWriter::from_consumer(URL.to_owned(), &STANDARD);
        Attachment(GzEncoder::new(base64, Compression::default()))
    }
}

impl Attachment {
    pub(super) fn add(&mut self, line: &str) {
        // A text takes all that is written.
        let _ = self.0.write_all(line.as_bytes()).and_then(|()| self.0.write_all(b"\n"));
    }

    pub(super) fn url(self) -> String {
        self.0.finish().map(EncoderStringWriter::into_inner).unwrap_or_default()
    }
}

/// Gives each line of the records that a report carries, with its number from 1, until enough were given; false where it
/// carries none.
pub(crate) fn each_attached(html: &str, mut each: impl FnMut(usize, &str) -> Result<ControlFlow<()>>) -> Result<bool> {
    let Some((_, link)) = html.split_once(r#"id="records-attached""#) else { return Ok(false) };
    let (_, octets) = link.split_once(URL).context("the report's link to its records leads nowhere")?;
    let octets = octets.split_once('"').map_or(octets, |(octets, _)| octets);
    let packed = DecoderReader::new(octets.as_bytes(), &STANDARD);
    let mut text = BufReader::new(GzDecoder::new(packed).take(MOST_OCTETS + 1));
    let (mut line, mut all) = (String::new(), 0);
    for number in 1.. {
        line.clear();
        let mut next = text.by_ref().take(LONGEST_LINE + 1);
        let len = next.read_line(&mut line).context("the records in the report are not whole")? as u64;
        if len > LONGEST_LINE {
            bail!("line {number} of the attached records is longer than 64 MiB, which is no record");
        }
        all += len;
        if all > MOST_OCTETS {
            bail!("the records in the report are larger than 1 GiB; make it of fewer campaigns");
        }
        if line.is_empty() || each(number, line.strip_suffix('\n').unwrap_or(&line))?.is_break() {
            break;
        }
    }
    Ok(true)
}

/// Those records of a report that stand at these places.
pub(crate) fn attached_at(html: &str, places: &[usize]) -> Result<Vec<Record>> {
    let mut found = BTreeMap::new();
    each_attached(html, |number, line| {
        if places.contains(&(number - 1)) {
            found.insert(number - 1, record_of(number, line)?);
        }
        Ok(if found.len() == places.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(places.iter().filter_map(|at| found.remove(at)).collect())
}

/// The record of a line.
pub(crate) fn record_of(number: usize, line: &str) -> Result<Record> {
    let read = Record::from_json(line).map_err(anyhow::Error::msg);
    read.with_context(|| format!("line {number} of the attached records is no record"))
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
