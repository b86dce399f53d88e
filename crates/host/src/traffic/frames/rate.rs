//! The pace at which frames leave that a program in the kernel sends: whole numbers, so that a rate has no error.

use linerate_machine::units::OfferedLoad;
use linerate_trial::spec::Spec;

use crate::xdp::generator::Pace;

/// When each frame is due, without an error; `None` of an unlimited load.
pub fn pace(spec: &Spec) -> Option<Pace> {
    let sizes = spec.frame_sizes();
    let turn = sizes.sizes().len() as u64;
    let (frames, in_ns) = match spec.rate {
        OfferedLoad::Unlimited | OfferedLoad::OfLine(_) => return None,
        OfferedLoad::PacketsPerSecond(frames) => (u128::from(frames), 1_000_000_000),
        OfferedLoad::BitsPerSecond(bits) => {
            (u128::from(bits) * u128::from(turn), 8_000_000_000 * u128::from(sizes.octets(turn)))
        }
    };
    let common = common_divisor(frames.max(1), in_ns);
    let part = |number: u128| u64::try_from(number / common).unwrap_or(u64::MAX).max(1);
    Some(Pace { frames: part(frames), in_ns: part(in_ns) })
}

fn common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_trial::spec::Workload;

    #[test]
    fn a_pace_is_exactly_what_was_asked() {
        let check = |rate: &str, size: &str, want: Option<(u64, u64)>| {
            let mut spec = Spec::new(Workload::Frames);
            (spec.rate, spec.frame_size) = (rate.parse().unwrap(), Some(size.parse().unwrap()));
            assert_eq!(pace(&spec).map(|pace| (pace.frames, pace.in_ns)), want, "{rate} {size}");
        };
        check("unlimited", "64", None);
        check("1488095pps", "64", Some((297_619, 200_000_000)));
        // 512 bits a frame: a million frames are 512 Mbit.
        check("512M", "64", Some((1, 1_000)));
        check("1G", "64", Some((1, 512)));
        // Twelve frames of 4342 octets: at 34.736 Mbit/s a thousand turns a second.
        check("34736K", "imix", Some((3, 250_000)));
        check("1", "16384", Some((1, 131_072_000_000_000)));
    }
}
