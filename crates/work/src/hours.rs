//! Hours of the week, in UTC: `mon-fri 18:00-06:00`, `sat-sun`, `22:00-06:00`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY: u32 = 24 * 60;
/// 1 January 1970 was a Thursday.
const FIRST: i64 = 3;

/// Days of a week, and minutes of each; an end before the beginning is on the next day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hours {
    days: [usize; 2],
    minutes: [u32; 2],
}

impl Hours {
    /// Whether this time is among them; seconds since 1970.
    pub fn has(&self, unix_s: i64) -> bool {
        let minute = unix_s.div_euclid(60);
        let (day, minute) = (minute.div_euclid(i64::from(DAY)), minute.rem_euclid(i64::from(DAY)) as u32);
        let is_day = |day: i64| {
            let day = (day + FIRST).rem_euclid(7) as usize;
            let [first, last] = self.days;
            if first <= last { (first..=last).contains(&day) } else { day >= first || day <= last }
        };
        let [from, to] = self.minutes;
        match from < to {
            true => is_day(day) && (from..to).contains(&minute),
            false => (is_day(day) && minute >= from) || (is_day(day - 1) && minute < to),
        }
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Hours, String> {
        let bad = || {
            let text = text.escape_debug();
            format!(
                "'{text}' are no hours; write days and UTC times like \"mon-fri 18:00-06:00\", \"sat-sun\" or \"22:00-06:00\""
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (days, times) = match words[..] {
            [one] if one.contains(':') => (None, Some(one)),
            [one] => (Some(one), None),
            [days, times] => (Some(days), Some(times)),
            _ => return Err(bad()),
        };
        let day = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name)).ok_or_else(bad);
        let days = match days.map(|days| days.split_once('-').unwrap_or((days, days))) {
            Some((first, last)) => [day(first)?, day(last)?],
            None => [0, 6],
        };
        let minute = |time: &str| {
            let (hour, minute) = time.split_once(':').ok_or_else(bad)?;
            let number = |text: &str| if text.len() == 2 { text.parse::<u32>().map_err(|_| bad()) } else { Err(bad()) };
            let (hour, minute) = (number(hour)?, number(minute)?);
            if minute < 60 && hour * 60 + minute <= DAY { Ok(hour * 60 + minute) } else { Err(bad()) }
        };
        let minutes = match times.map(|times| times.split_once('-').ok_or_else(bad)).transpose()? {
            Some((from, to)) => [minute(from)?, minute(to)?],
            None => [0, DAY],
        };
        if minutes[0] == minutes[1] || minutes[0] == DAY { Err(bad()) } else { Ok(Hours { days, minutes }) }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, last] = self.days.map(|day| DAYS[day]);
        let [from, to] = self.minutes.map(|all| format!("{:02}:{:02}", all / 60, all % 60));
        write!(f, "{first}-{last} {from}-{to}")
    }
}

impl From<Hours> for String {
    fn from(hours: Hours) -> String {
        hours.to_string()
    }
}

impl TryFrom<String> for Hours {
    type Error = String;

    fn try_from(text: String) -> Result<Hours, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By a calendar that is not ours.
    fn at(text: &str) -> i64 {
        text.parse::<jiff::Timestamp>().unwrap().as_second()
    }

    #[test]
    fn hours_of_a_week() {
        // 23 November 2026 is a Monday.
        for (hours, time, is_among) in [
            ("mon-fri 18:00-06:00", "2026-11-23T18:00:00Z", true),
            ("mon-fri 18:00-06:00", "2026-11-23T17:59:59Z", false),
            ("mon-fri 18:00-06:00", "2026-11-24T05:59:59Z", true),
            ("mon-fri 18:00-06:00", "2026-11-24T06:00:00Z", false),
            ("mon-fri 18:00-06:00", "2026-11-23T05:00:00Z", false), // the night after Sunday
            ("mon-fri 18:00-06:00", "2026-11-28T05:00:00Z", true),  // the night after Friday
            ("mon-fri 18:00-06:00", "2026-11-28T18:00:00Z", false),
            ("sat-sun", "2026-11-29T23:59:59Z", true),
            ("sat-sun", "2026-11-30T00:00:00Z", false),
            ("fri-mon", "2026-11-23T12:00:00Z", true),
            ("fri-mon", "2026-11-24T12:00:00Z", false),
            ("22:00-24:00", "2026-11-26T23:00:00Z", true),
            ("wed", "2026-11-25T00:00:00Z", true),
            ("thu", "1970-01-01T00:00:00Z", true),
            ("wed", "1969-12-31T23:59:00Z", true),
        ] {
            assert_eq!(hours.parse::<Hours>().unwrap().has(at(time)), is_among, "{hours} {time}");
        }
        for bad in [
            "",
            "late",
            "mon-fri 18-6",
            "mon 18:00",
            "18:00-18:00",
            "24:00-25:00",
            "10:60-11:00",
            "mon tue wed",
            "24:00-06:00",
        ] {
            assert!(bad.parse::<Hours>().is_err(), "{bad}");
        }
        let hours: Hours = "22:00-06:30".parse().unwrap();
        assert_eq!(hours.to_string().parse::<Hours>().unwrap(), hours);
    }
}
