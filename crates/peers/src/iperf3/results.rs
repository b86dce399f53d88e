//! What the two ends of an iperf3 test tell each other afterwards, as the JSON says it.
//! Knows no arithmetic but the peers' own: how they count is written at each field.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::parameters::{AnyNumber, some_integer};

/// The results of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// CPU time of the process over time, per cent of one CPU.
    #[serde(deserialize_with = "number")]
    pub cpu_util_total: f64,
    /// Of it, in user mode.
    #[serde(deserialize_with = "number")]
    pub cpu_util_user: f64,
    /// Of it, in the kernel.
    #[serde(deserialize_with = "number")]
    pub cpu_util_system: f64,
    /// 1: it sent, and knows retransmissions; 0: it sent, and does not; -1: it received.
    #[serde(deserialize_with = "integer")]
    pub sender_has_retransmits: i64,
    /// TCP_CONGESTION as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_used: Option<String>,
    /// What the server printed, of one that prints JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_json: Option<Value>,
    /// What the server printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_text: Option<String>,
    /// Each stream.
    pub streams: Vec<StreamResults>,
}

/// What one end says of one stream, without the time that was left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamResults {
    /// Its number: 1, 3, 4, 5, …
    #[serde(deserialize_with = "integer")]
    pub id: i64,
    /// Octets sent, or received.
    #[serde(deserialize_with = "integer")]
    pub bytes: i64,
    /// Segments retransmitted; -1: unknown.
    #[serde(deserialize_with = "integer")]
    pub retransmits: i64,
    /// Seconds.
    #[serde(deserialize_with = "number")]
    pub jitter: f64,
    /// Of a receiver: datagrams missing below the highest number, those of [`StreamResults::omitted_errors`] too.
    #[serde(deserialize_with = "integer")]
    pub errors: i64,
    /// Of a sender: datagrams sent. Of a receiver: the highest number seen. Those that were left out too.
    #[serde(deserialize_with = "integer")]
    pub packets: i64,
    /// [`StreamResults::errors`] in the time that was left out. Absent before 3.13; with it, a 3.13 and later client
    /// that gets none shows a wrong loss (esnet/iperf#2055).
    #[serde(deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    pub omitted_errors: Option<i64>,
    /// [`StreamResults::packets`] in the time that was left out; present with `omitted_errors`.
    #[serde(deserialize_with = "some_integer", skip_serializing_if = "Option::is_none")]
    pub omitted_packets: Option<i64>,
    /// Seconds.
    #[serde(deserialize_with = "number")]
    pub start_time: f64,
    /// Seconds.
    #[serde(deserialize_with = "number")]
    pub end_time: f64,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(deserializer.deserialize_any(AnyNumber)?.unwrap_or(0.0))
}

fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(some_integer(deserializer)?.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_of_3_12_sends() {
        let text = r#"{"cpu_util_total":5.1,"cpu_util_user":1,"cpu_util_system":4.1,"sender_has_retransmits":18446744073709551615,
            "streams":[{"id":1,"bytes":1250000,"retransmits":18446744073709551615,"jitter":1.5e-05,"errors":3,"packets":867,
            "start_time":0,"end_time":1.000321}],"new":true}"#;
        let results: Results = serde_json::from_str(text).unwrap();
        assert_eq!(results.sender_has_retransmits, -1);
        let stream = &results.streams[0];
        assert_eq!((stream.retransmits, stream.errors, stream.packets, stream.omitted_errors), (-1, 3, 867, None));
    }

    #[test]
    fn both_omitted_counts_or_neither_are_written() {
        let stream = StreamResults { omitted_errors: Some(0), omitted_packets: Some(0), ..StreamResults::default() };
        let text = serde_json::to_string(&stream).unwrap();
        assert!(text.contains(r#""omitted_errors":0,"omitted_packets":0"#), "{text}");
        assert!(!serde_json::to_string(&StreamResults::default()).unwrap().contains("omitted"));
    }
}
