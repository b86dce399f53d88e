//! What `linerate demo` measures: three built-in plans, cut to fit a minute.
//! Knows no machines; the demo makes them and runs these.

/// The plans of the demo, in order, each with what it changes in them. Together at most 40 s of traffic, which
/// leaves 20 s of the demo's minute for making two machines and for what lies between the trials.
pub fn demo_plans() -> Vec<(&'static str, Vec<(String, String)>)> {
    let set = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    vec![
        ("tcp", vec![set("duration", "3s"), set("warmup", "300ms")]),
        // Two loads below the 470 Mbit/s of the demo's link, two above: the bend is in the picture. Threads are
        // pinned, because the lab takes packets in on the last CPU: where a thread shares that one, the board takes in so
        // little that the sender waits for it, and nothing is lost.
        ("udp-sweep", vec![set("rate", "200M,400M,700M,1G"), set("duration", "1s"), set("pin", "true")]),
        // A second of requests 10 ms apart is 100 of them: enough for a median, and the demo claims no more.
        ("rr", vec![set("request_size", "64"), set("duration", "1s")]),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ExpectedTime, named};

    #[test]
    fn the_demo_fits_its_minute() {
        let mut time = Duration::ZERO;
        let mut trials = 0;
        for (name, overrides) in demo_plans() {
            let planned = named(name).unwrap().trials(&overrides, None).unwrap();
            let expected = ExpectedTime::of(&planned);
            assert_eq!(expected.by_bytes, 0, "{name}");
            time += expected.time;
            trials += planned.len() as u32;
        }
        assert!(time <= Duration::from_secs(40), "{time:?}");
        // A quarter of a second is what a trial may cost beside its traffic.
        assert!(time + trials * Duration::from_millis(250) <= Duration::from_secs(50), "{trials} trials, {time:?}");
    }
}
