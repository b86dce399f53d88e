//! Records as JSON Lines, for programs.
//! Knows no fields: the record knows how it is written.

use linerate_results::record::Record;

/// One record a line, each a JSON object without line breaks (jsonlines.org).
pub(crate) fn json(records: &[Record]) -> String {
    records.iter().map(|record| format!("{}\n", record.to_json())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_line_is_a_record() {
        let records = sample::everything();
        let read: Vec<Record> = json(&records).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, records);
    }
}
