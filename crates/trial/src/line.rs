//! What of a trial's options is of the line between its ends: a load in per cent of its rate, frames as large as its MTU.
//! Knows no machines; what they tell is an argument. Who sends knows bits and octets alone.

use linerate_machine::units::OfferedLoad;
use linerate_wire::EthernetOverhead;
use linerate_wire::frame::TAG_LEN;

use crate::frames::FrameSizes;
use crate::spec::{Spec, Workload};

/// A line, as its ends tell of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Of the slower end's link.
    pub bits_per_s: Option<u64>,
    /// Of the end whose is smaller, octets.
    pub mtu: Option<u32>,
}

/// What no end tells.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownLine {
    /// Its rate.
    #[error("{0} is of the line's rate, which neither end's link tells; give that too, like --set line_rate=1G")]
    Rate(OfferedLoad),
    /// Its MTU.
    #[error("the frame size z is the link's MTU, which neither end tells; give the size in bytes, like 1518")]
    Mtu,
}

impl Spec {
    /// Whether something of it is of the line still.
    pub fn is_of_line(&self) -> bool {
        let is_part = |load: OfferedLoad| matches!(load, OfferedLoad::OfLine(_));
        let has_mtu = self.frame_size.as_ref().is_some_and(FrameSizes::has_mtu);
        is_part(self.rate) || self.first_rate.is_some_and(is_part) || has_mtu
    }

    /// Puts bits per second and bytes in the place of what is of the line. All streams of a direction share its rate.
    pub fn at_line(&mut self, line: Line) -> Result<(), UnknownLine> {
        if let Some(sizes) = self.frame_size.as_ref().filter(|sizes| sizes.has_mtu()) {
            let mtu = line.mtu.ok_or(UnknownLine::Mtu)?;
            let around = EthernetOverhead::HEADER + EthernetOverhead::FCS + (TAG_LEN * self.vlan.0.count()) as u64;
            self.frame_size = Some(sizes.at_mtu(mtu.saturating_add(around as u32)));
        }
        let asked = match self.line_rate {
            Some(OfferedLoad::BitsPerSecond(bits)) => Some(bits),
            _ => line.bits_per_s,
        };
        let resolve = |load: OfferedLoad| match load {
            OfferedLoad::OfLine(parts) => {
                let bits = asked.ok_or(UnknownLine::Rate(load))? as f64 / f64::from(self.streams.max(1));
                let share = f64::from(parts) / f64::from(OfferedLoad::WHOLE_LINE);
                // Down to whole bits: no more than was asked.
                Ok(OfferedLoad::BitsPerSecond(((bits * share * self.payload_share()) as u64).max(1)))
            }
            other => Ok(other),
        };
        let (rate, first_rate) = (resolve(self.rate)?, self.first_rate.map(resolve).transpose()?);
        (self.rate, self.first_rate) = (rate, first_rate);
        Ok(())
    }

    /// What of the line's time is what a load counts: of frames all but preamble and gap, of datagrams the payload.
    fn payload_share(&self) -> f64 {
        if self.workload == Workload::Frames {
            let sizes = self.frame_sizes();
            let turn = sizes.sizes().len() as u64;
            let on_wire: u64 =
                sizes.sizes().iter().map(|size| EthernetOverhead::frame_wire_octets(u64::from(*size))).sum();
            return sizes.octets(turn) as f64 / on_wire as f64;
        }
        let payload = u64::from(self.message_octets());
        payload as f64 / EthernetOverhead::udp_wire_octets(payload, self.ip_version()) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Line = Line { bits_per_s: Some(1_000_000_000), mtu: Some(1500) };

    fn spec(workload: Workload, options: &[(&str, &str)]) -> Spec {
        let mut spec = Spec::new(workload);
        options.iter().for_each(|(name, value)| spec.set(name, value).unwrap());
        spec.validate().unwrap();
        spec
    }

    /// Frames a second of each stream.
    fn frames(options: &[(&str, &str)], line: Line) -> f64 {
        let mut spec = spec(Workload::Frames, options);
        spec.at_line(line).unwrap();
        let OfferedLoad::BitsPerSecond(bits) = spec.rate else { panic!("{:?}", spec.rate) };
        let sizes = spec.frame_sizes();
        let turn = sizes.sizes().len() as u64;
        bits as f64 * turn as f64 / (8 * sizes.octets(turn)) as f64
    }

    #[test]
    fn the_whole_line_is_what_rfc_2544_s_tables_say() {
        // Appendix B's arithmetic, at 1 Gbit/s.
        for (size, most) in [("64", 1_488_095.2), ("128", 844_594.6), ("512", 234_962.4), ("1518", 81_274.4)] {
            let all = frames(&[("rate", "100%"), ("frame_size", size)], GIGABIT);
            assert!(all <= most + 0.05 && all > most - 0.1, "{size}: {all}");
            let half = frames(&[("rate", "50%"), ("frame_size", size), ("streams", "2")], GIGABIT);
            assert!((half - most / 4.0).abs() < 0.1, "{size}: {half}");
        }
        // Twelve frames of 4342 octets, and 20 beside each.
        let imix = frames(&[("rate", "100%"), ("frame_size", "imix")], GIGABIT);
        assert!((imix - 12e9 / 8.0 / 4582.0).abs() < 0.1, "{imix}");
    }

    #[test]
    fn datagrams_leave_room_for_their_headers() {
        let mut udp = spec(Workload::UdpStream, &[("rate", "95%"), ("message_size", "1470")]);
        assert!(udp.is_of_line());
        udp.at_line(GIGABIT).unwrap();
        assert!(!udp.is_of_line());
        // 1470 octets in 1470 + 8 + 20 + 18 + 20.
        let want = 0.95e9 * 1470.0 / 1536.0;
        assert_eq!(udp.rate, OfferedLoad::BitsPerSecond(want as u64));
    }

    #[test]
    fn a_rate_that_is_given_stands_in_for_the_links() {
        let options = [("rate", "10%"), ("line_rate", "100M"), ("frame_size", "64")];
        assert!((frames(&options, Line::default()) - 14_880.9).abs() < 0.1);
        let mut unknown = spec(Workload::Frames, &[("rate", "10%")]);
        let error = unknown.at_line(Line::default()).unwrap_err();
        assert_eq!(error, UnknownLine::Rate(OfferedLoad::OfLine(100_000)));
        assert!(
            error.to_string().starts_with("10% is of the line's rate") && error.to_string().contains("line_rate=1G")
        );
        // What is of no line stays as it is.
        for rate in ["unlimited", "10kpps", "5M"] {
            let mut known = spec(Workload::Frames, &[("rate", rate)]);
            let before = known.clone();
            known.at_line(Line::default()).unwrap();
            assert_eq!(known, before);
        }
    }

    #[test]
    fn z_is_the_links_mtu() {
        let mut mixed = spec(Workload::Frames, &[("frame_size", "aaz"), ("vlan", "5")]);
        assert_eq!(mixed.at_line(Line { mtu: None, ..GIGABIT }), Err(UnknownLine::Mtu));
        mixed.at_line(Line { mtu: Some(9000), ..GIGABIT }).unwrap();
        let sizes = mixed.frame_sizes();
        assert_eq!(sizes.sizes(), [64, 64, 9022]);
        assert_eq!(sizes.to_string().parse::<FrameSizes>().unwrap().sizes(), sizes.sizes(), "{sizes}");
        mixed.validate().unwrap();
    }
}
