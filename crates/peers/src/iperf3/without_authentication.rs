//! What stands for `authentication.rs` in a program that is built without it: everything is refused in one clause.
//! Knows no cryptography.

use std::collections::BTreeMap;
use std::convert::Infallible;

/// What to do where a server wants to know who asks. The controller of an agent that is built so may have more.
pub const HOW_TO_SAY: &str = "start it without --authorized-users-path, or build linerate with 'cargo build --release \
                              --features authentication' and give --username, --rsa-public-key and the password in \
                              IPERF3_PASSWORD";
const WITHOUT: &str = "cannot be used: this linerate is built without iperf3's users and passwords; build it with \
                       'cargo build --release --features authentication'";

/// What a client shows. There is none.
#[derive(Clone, Debug)]
pub struct Credentials(Infallible);

impl Credentials {
    /// The error is a clause that ends in what to try.
    pub fn new(_key: &str, _user: &str, _password: &str) -> Result<Credentials, String> {
        Err(WITHOUT.to_owned())
    }

    /// Tokens of this moment.
    pub fn tokens(&self, _now_s: u64) -> Result<Vec<String>, String> {
        match self.0 {}
    }
}

/// What a server knows. There is none.
#[derive(Debug)]
pub struct Guard(Infallible);

impl Guard {
    /// The error is a clause that ends in what to try.
    pub fn key(_key: &str) -> Result<Infallible, String> {
        Err(WITHOUT.to_owned())
    }

    /// Nobody: a file of users says nothing without a key.
    pub fn users(_users: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
        Ok(BTreeMap::new())
    }

    /// A guard with this key.
    pub fn new(key: Infallible, _users: BTreeMap<String, Vec<u8>>) -> Result<Guard, String> {
        match key {}
    }

    /// The user whose token this is.
    pub fn user(&self, _token: &str, _now_s: u64) -> Option<&str> {
        match self.0 {}
    }
}
