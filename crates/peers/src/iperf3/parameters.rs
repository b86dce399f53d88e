//! What an iperf3 client asks of a server, as the JSON says it.
//! Knows no sockets; what a server grants is decided by the server.
//!
//! Versions differ in how they write the same thing: a flag is `true` or `1`, a number may have a fraction, and some
//! write -1 as 2^64-1. All of that is read; what is written is what every version reads.

use serde::de::{Error, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The most octets of a server's accepted parameters: current servers refuse more.
pub const MAX_PARAMETERS: u32 = 8192;

/// The parameters of a test. Absent flags are false, absent numbers unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parameters {
    /// TCP streams.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub tcp: bool,
    /// UDP streams.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub udp: bool,
    /// SCTP streams.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub sctp: bool,
    /// Seconds at the start that are left out.
    #[serde(deserialize_with = "count")]
    pub omit: u64,
    /// Seconds; 0: something else ends the test.
    #[serde(deserialize_with = "count")]
    pub time: u64,
    /// Octets that end the test; 0: something else does.
    #[serde(deserialize_with = "count")]
    pub num: u64,
    /// Blocks that end the test; 0: something else does.
    #[serde(deserialize_with = "count")]
    pub blockcount: u64,
    /// Streams in a direction.
    #[serde(deserialize_with = "count")]
    pub parallel: u64,
    /// Octets of a write or a datagram.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// TCP_MAXSEG.
    #[serde(rename = "MSS", deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub mss: Option<u64>,
    /// TCP_NODELAY.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub nodelay: bool,
    /// The server sends.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub reverse: bool,
    /// Both send.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub bidirectional: bool,
    /// Multipath TCP.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub mptcp: bool,
    /// SO_SNDBUF and SO_RCVBUF, octets.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Bits per second of a stream, paced by the sending application; 0: unlimited.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// Bits per second of a stream, paced by the sending kernel.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub fqrate: Option<u64>,
    /// Microseconds between two looks of an application that paces.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub pacing_timer: Option<u64>,
    /// Messages sent back to back.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Type of service.
    #[serde(rename = "TOS", deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub tos: Option<u64>,
    /// TCP_CONGESTION.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The client's title of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The client wants what the server prints.
    #[serde(deserialize_with = "flag", serialize_with = "as_number", skip_serializing_if = "is_false")]
    pub get_server_output: bool,
    /// Datagrams have numbers of 64 bits.
    #[serde(deserialize_with = "flag", serialize_with = "as_number", skip_serializing_if = "is_false")]
    pub udp_counters_64bit: bool,
    /// The client hands datagrams to its kernel in buffers that are cut apart on the way (`--gsro`, from 3.18 on).
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub gso: bool,
    /// Octets of such a buffer.
    #[serde(deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    pub gso_bf_size: Option<u64>,
    /// Who the client is, encrypted for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authtoken: Option<String>,
    /// The client's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
}

impl Parameters {
    /// Datagrams to a buffer that the client's stack cuts apart, of a client that sends so.
    pub fn datagrams_to_a_buffer(&self) -> Option<u32> {
        let most = self.gso_bf_size.filter(|_| self.gso)?.checked_div(self.len?)?;
        u32::try_from(most).ok().filter(|most| *most > 1)
    }
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A flag that servers read as a number.
fn as_number<S: serde::Serializer>(flag: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8((*flag).into())
}

fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(deserializer.deserialize_any(AnyNumber)?.is_some_and(|number| number != 0.0))
}

/// A count, where a negative one means that there is none.
fn some_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(some_integer(deserializer)?.and_then(|number| u64::try_from(number).ok()))
}

/// A whole number. One that was negative and is written as what it is modulo 2^64 may be a fraction, which has no room for
/// more than that it was negative.
pub(super) fn some_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let number = deserializer.deserialize_any(AnyNumber)?;
    Ok(number.map(|number| if number >= 2f64.powi(63) { -1 } else { number as i64 }))
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(some_count(deserializer)?.unwrap_or(0))
}

/// Any number that JSON has, or a flag, or nothing. Exact up to 2^53, beyond which no parameter has a meaning.
pub(super) struct AnyNumber;

impl<'de> Visitor<'de> for AnyNumber {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number, true or false")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Option<f64>, E> {
        Ok(Some(f64::from(u8::from(flag))))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<f64>, E> {
        Ok(Some(number as f64))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<f64>, E> {
        // Versions about 3.12 print negative integers as what they are modulo 2^64.
        Ok(Some(if number > i64::MAX as u64 { number.cast_signed() as f64 } else { number as f64 }))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<f64>, E> {
        Ok(Some(number))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<f64>, E> {
        Ok(None)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Option<f64>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Err(A::Error::custom("a list where a number was expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf3_3_12_sends() {
        // Taken from the wire: iperf3 3.12 -u -R -b 5M -P 2 --get-server-output.
        let text = r#"{"udp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":2,"reverse":true,"len":1448,
            "bandwidth":5000000,"pacing_timer":1000,"get_server_output":1,"udp_counters_64bit":1,"client_version":"3.12"}"#;
        let parameters: Parameters = serde_json::from_str(text).unwrap();
        assert!(parameters.udp && parameters.reverse && parameters.get_server_output && parameters.udp_counters_64bit);
        assert!(!parameters.tcp && !parameters.bidirectional);
        assert_eq!((parameters.parallel, parameters.len, parameters.bandwidth), (2, Some(1448), Some(5_000_000)));
    }

    #[test]
    fn what_iperf3_3_22_sends_of_buffers_that_are_cut_apart() {
        let text = r#"{"udp":true,"omit":0,"time":1,"parallel":1,"len":512,"bandwidth":5000000,"pacing_timer":1000,"gso":1,
            "gso_dg_size":512,"gso_bf_size":65024,"gro":1,"gro_bf_size":65507,"client_version":"3.22"}"#;
        let parameters: Parameters = serde_json::from_str(text).unwrap();
        assert_eq!(parameters.datagrams_to_a_buffer(), Some(127));
        // Without a rate it says what it could hold.
        let text = text.replace("65024", "65507").replace(r#""gso_dg_size":512"#, r#""gso_dg_size":0"#);
        assert_eq!(serde_json::from_str::<Parameters>(&text).unwrap().datagrams_to_a_buffer(), Some(127));
        for plain in [r#"{"udp":true,"len":512,"gso":0,"gso_bf_size":65507}"#, r#"{"gso":1,"gso_bf_size":9}"#] {
            assert_eq!(serde_json::from_str::<Parameters>(plain).unwrap().datagrams_to_a_buffer(), None, "{plain}");
        }
    }

    #[test]
    fn a_flag_may_be_a_number_and_a_number_wrapped() {
        let text = r#"{"tcp":1,"nodelay":0,"num":18446744073709551615,"len":131072.0,"window":-1,"MSS":1.8446744073709552e19,
            "something":[{"new":1}],"burst":null}"#;
        let parameters: Parameters = serde_json::from_str(text).unwrap();
        assert!(parameters.tcp && !parameters.nodelay);
        assert_eq!((parameters.num, parameters.len, parameters.window), (0, Some(131_072), None));
        assert_eq!((parameters.mss, parameters.burst), (None, None));
        for nonsense in [r#"{"tcp":"yes"}"#, r#"{"len":[1]}"#, r#"{"len":{}}"#, "7"] {
            assert!(serde_json::from_str::<Parameters>(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn what_is_written_has_the_types_that_servers_check() {
        let parameters = Parameters {
            udp: true,
            parallel: 1,
            time: 5,
            len: Some(1400),
            get_server_output: true,
            udp_counters_64bit: true,
            ..Parameters::default()
        };
        let text = serde_json::to_string(&parameters).unwrap();
        assert_eq!(
            text,
            r#"{"udp":true,"omit":0,"time":5,"num":0,"blockcount":0,"parallel":1,"len":1400,"get_server_output":1,"udp_counters_64bit":1}"#
        );
    }
}
