//! `cargo xtask bench overhead`: what linerate adds to a trial beside the time that was asked for.
//! Knows wall clocks only: what is added is whatever was not asked for.

use std::time::Instant;

use super::Bench;
use super::statistics::{median, range};

const TRIALS: u32 = 20;
const DURATION_S: f64 = 0.2;
const WARMUP_S: f64 = 0.1;

/// Campaigns of short trials, of each kind; returns the table.
pub fn run() -> Result<String, String> {
    let bench = Bench::start()?;
    let (duration, warmup, repeat) = (format!("{DURATION_S}s"), format!("{WARMUP_S}s"), TRIALS.to_string());
    let mut table = format!(
        "{TRIALS} trials of {DURATION_S} s and {WARMUP_S} s of warm-up in one campaign; *added* is the campaign's wall time \
         less what was asked for, by trial. *First included* has the start of the program and of both agents in it.\n\n\
         | workload | added, first included, ms | median ms | least and most ms |\n|---|--:|--:|--:|\n"
    );
    for workload in ["tcp-stream", "udp-stream", "tcp-rr"] {
        let mut options = vec![("duration", duration.as_str()), ("warmup", warmup.as_str())];
        if workload == "udp-stream" {
            options.push(("rate", "50M"));
        }
        let began = Instant::now();
        let records = bench.linerate(workload, &options, &["--repeat", &repeat])?;
        let whole = began.elapsed().as_secs_f64() / f64::from(TRIALS) - DURATION_S - WARMUP_S;
        // An identifier's first ten characters are milliseconds: from one trial's start to the next one's.
        let starts: Vec<f64> =
            records.iter().filter_map(|record| Some(milliseconds(record["id"].as_str()?) as f64)).collect();
        let added: Vec<f64> = starts.windows(2).map(|two| two[1] - two[0] - (DURATION_S + WARMUP_S) * 1e3).collect();
        let (least, most) = range(&added);
        table += &format!("| {workload} | {:.0} | {:.0} | {least:.0} – {most:.0} |\n", whole * 1e3, median(&added));
    }
    Ok(table)
}

/// Since 1970, from an identifier in the layout of a ULID (Crockford's base 32).
fn milliseconds(id: &str) -> u64 {
    const DIGITS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    id.chars().take(10).fold(0, |sum, digit| sum * 32 + DIGITS.find(digit).unwrap_or(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn an_identifier_is_a_time() {
        assert_eq!(milliseconds("000000000Z0000000000000000"), 31);
        assert_eq!(milliseconds("00000000100000000000000000"), 32);
    }
}
