//! linerate: the options for each load, and the receiver's figures in its record.
//! Knows the record's fields and no way to start it.

use serde_json::Value;

use super::tool::{Account, Load};

/// The plan, and the options, for seconds of a load from the host to the target.
pub(super) fn plan(load: Load, seconds: u32) -> (&'static str, Vec<(String, String)>) {
    let mut options = vec![("duration".to_owned(), format!("{seconds}s")), ("direction".to_owned(), "rx".to_owned())];
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    let plan = match load {
        Load::Tcp => "tcp-stream",
        Load::Udp { octets, rate_bps } => {
            set("message_size", octets.to_string());
            if let Some(rate_bps) = rate_bps {
                set("rate", rate_bps.to_string());
            }
            "udp-stream"
        }
        Load::Requests { udp, octets } => {
            set("request_size", octets.to_string());
            set("response_size", octets.to_string());
            if udp { "udp-rr" } else { "tcp-rr" }
        }
    };
    (plan, options)
}

/// What the record says of the receiver.
pub(super) fn read(record: &Value) -> Result<Account, String> {
    if let Some(error) = record["error"].as_str() {
        return Err(format!("linerate: {error}"));
    }
    let result = &record["result"];
    let seconds = record["duration_s"].as_f64().ok_or("linerate's record has no duration")?;
    let octets = result["throughput_bps"].as_f64().map(|bps| bps * seconds / 8.0);
    let transactions = result["transactions_per_s"].as_f64().map(|per_s| per_s * seconds);
    if octets.is_none() && transactions.is_none() {
        return Err("linerate's record has no figure".to_owned());
    }
    Ok(Account {
        octets: octets.unwrap_or(0.0),
        seconds,
        lost: result["packets_lost"].as_f64(),
        transactions,
        median_s: result["latency"]["percentiles"]["p50"].as_f64(),
    })
}

/// The CPU seconds that the record gives the host's threads.
pub(super) fn host_threads_s(record: &Value) -> Option<f64> {
    let threads = &record["host"]["threads"];
    Some(threads["user_s"].as_f64()? + threads["system_s"].as_f64()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_receivers_figures_of_a_record() {
        let record = json!({"duration_s": 2.0, "result": {"throughput_bps": 8e6, "packets_lost": 3},
            "host": {"threads": {"user_s": 0.25, "system_s": 0.5}}});
        let account = read(&record).unwrap();
        assert_eq!((account.octets, account.lost, account.bps()), (2e6, Some(3.0), 8e6));
        assert_eq!(host_threads_s(&record), Some(0.75));
        let record = json!({"duration_s": 2.0,
            "result": {"transactions_per_s": 5e4, "latency": {"percentiles": {"p50": 2e-5}}}});
        let account = read(&record).unwrap();
        assert_eq!((account.transactions, account.median_s), (Some(1e5), Some(2e-5)));
    }

    #[test]
    fn a_failed_trial_has_no_figures() {
        assert_eq!(read(&json!({"error": "the link is down"})).unwrap_err(), "linerate: the link is down");
        assert!(read(&json!({"duration_s": 1.0, "result": {}})).is_err());
    }
}
