//! A trial between two namespaces, both of whose ends are in this process.
//! Knows no controller: the two tell each other what it would carry between them.

use std::net::IpAddr;
use std::sync::mpsc;
use std::thread;

use linerate_host::traffic::{Tokens, Trial};
use linerate_machine::end::End;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;

use super::namespaces::{LINK, Pair, within};

/// What the host's end saw, in the first namespace, and the target's, in the second. Fails where a trial does.
pub fn run(pair: &Pair, spec: &Spec) -> [Outcome; 2] {
    let tokens = Tokens { hello: [0x11; 16], answer: [0x22; 16] };
    let (to_target, from_host) = mpsc::channel();
    let (to_host, from_target) = mpsc::channel();
    let one = |end: End, name: &str, tell: mpsc::Sender<_>, heard: mpsc::Receiver<_>| {
        within(name, move || {
            // Of no use but to be told apart.
            let addresses = ["198.18.0.1", "198.18.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
            let [local, peer] = if end == End::Host { addresses } else { [addresses[1], addresses[0]] };
            let mut trial = Trial::prepare(spec.clone(), end, local, Some(LINK.to_owned()), tokens).unwrap();
            tell.send(trial.mac()).unwrap();
            trial.frames_go_to(heard.recv().unwrap());
            trial.connect(peer, &[], |_| ()).unwrap();
            // Both are open before either starts.
            tell.send(None).unwrap();
            heard.recv().unwrap();
            trial.start();
            trial.join().unwrap()
        })
    };
    thread::scope(|scope| {
        let target = scope.spawn(|| one(End::Target, &pair.b, to_host, from_host));
        let host = one(End::Host, &pair.a, to_target, from_target);
        [host, target.join().unwrap()]
    })
}
