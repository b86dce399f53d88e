//! A port has what arrives at an interface, and what it sends arrives at the other end. Without root it is skipped.
//! Knows no shapes.

use std::time::{Duration, Instant};

use linerate_lab::{LINK_NAME, Lab, Port, Privilege, Shape, privilege};

/// For local experiments (IEEE 802, EtherType 1): no stack answers it.
const LOCAL_EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

#[test]
fn what_one_end_sends_the_other_has_whole() {
    if privilege() != Privilege::Root {
        return eprintln!("SKIPPED what_one_end_sends_the_other_has_whole: it needs root");
    }
    let lab = Lab::up(&Shape::unshaped()).unwrap();
    let (host, target) =
        (lab.host.run(|| Port::open(LINK_NAME)).unwrap(), lab.target.run(|| Port::open(LINK_NAME)).unwrap());
    let mut frame = vec![0xff; 12];
    frame.extend(LOCAL_EXPERIMENTAL);
    frame.extend((0..1500).map(|at| at as u8));
    assert!(host.send(&frame).unwrap());
    let mut room = [0; 2048];
    let deadline = Instant::now() + Duration::from_secs(5);
    let arrived = loop {
        assert!(Instant::now() < deadline, "it did not arrive");
        match target.receive(&mut room).unwrap() {
            Some(len) if room[12..14] == LOCAL_EXPERIMENTAL => break len,
            Some(_) => {}
            None => target.wait(Duration::from_millis(100)).unwrap(),
        }
    };
    assert_eq!(room[..arrived], frame);
    // What a port sends is nothing that arrives there.
    while let Some(len) = host.receive(&mut room).unwrap() {
        assert_ne!(room[..len], frame);
    }
    assert_eq!(target.overflowed().unwrap(), 0);
    assert!(lab.host.run(|| Port::open("nosuch")).is_err());
}
