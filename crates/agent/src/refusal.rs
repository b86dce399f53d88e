//! Why a request is not carried out.
//! Knows the kinds of refusal, and no request.

use std::net::IpAddr;

use linerate_control::message::RefusalKind;

/// Why a request was not carried out.
pub(crate) struct Refusal(pub(crate) RefusalKind, pub(crate) String);

/// The machine could not do it.
pub(crate) fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal(RefusalKind::Failed, error.to_string())
}

/// It comes before what must be done first.
pub(crate) fn out_of_order(sentence: &str) -> Refusal {
    Refusal(RefusalKind::OutOfOrder, sentence.to_owned())
}

/// Test traffic goes to one machine only, never to a multicast group or a broadcast address.
pub(crate) fn check_of_one_machine(address: IpAddr) -> Result<(), Refusal> {
    let canonical = address.to_canonical();
    if canonical.is_multicast() || canonical.is_unspecified() || canonical == IpAddr::from([255; 4]) {
        let sentence = format!("{address} is no address of one machine; name another one");
        return Err(Refusal(RefusalKind::BadRequest, sentence));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_machine_and_others() {
        for (address, is_one) in [
            ("10.77.0.1", true),
            ("127.0.0.1", true),
            ("2001:db8::1", true),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("::ffff:224.0.0.1", false),
            ("ff02::1", false),
            ("255.255.255.255", false),
            ("0.0.0.0", false),
            ("::", false),
        ] {
            assert_eq!(check_of_one_machine(address.parse().unwrap()).is_ok(), is_one, "{address}");
        }
    }
}
