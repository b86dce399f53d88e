//! Who an iperf3 client is: user and password under a server's RSA key, in both roles.
//! Knows no connection and no clock: the time is an argument.
//!
//! The text `user: NAME`, `pwd:  PASS`, `ts:   SECONDS` is encrypted with the server's public key and written as base64.
//! Versions from 3.17 on pad with OAEP, older ones as PKCS #1 1.5; a server does not say which it is, so a client has a
//! token of each, and a server reads both. Whether the padding was wrong or the user, nobody may be told, nor how long it
//! took to see, for that would help those who guess (Bleichenbacher 1998; Kario 2023, "Marvin").

use std::collections::BTreeMap;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, Pkcs1PrivateDecryptingKey,
    Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// What to do where a server wants to know who asks.
pub const HOW_TO_SAY: &str = "give --username, --rsa-public-key and the password in IPERF3_PASSWORD";
/// How far a client's clock may be from the server's: iperf3's own limit.
pub const SKEW_S: u64 = 10;
/// The longest token: an RSA key of 8192 bits.
const MOST_TOKEN: usize = 1366 + 2;
const MOST_NAME: usize = 256;

/// What a client shows: a user, a password, and a server's public key.
#[derive(Clone)]
pub struct Credentials {
    key: PublicEncryptingKey,
    user: String,
    password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Credentials {
    /// `key`: the server's public key as PEM. The error is a clause that ends in what to try.
    pub fn new(key: &str, user: &str, password: &str) -> Result<Credentials, String> {
        let der = pem(key, "PUBLIC KEY").ok_or(
            "holds no public key in PEM; make one of the server's private key with 'openssl rsa -pubout', and copy it",
        )?;
        let key = PublicEncryptingKey::from_der(&der).map_err(|error| {
            format!("holds a public key that cannot be used ({error}); make an RSA key of 2048 to 8192 bits")
        })?;
        if user.is_empty() || [user, password].iter().any(|text| text.len() > MOST_NAME || text.contains('\n')) {
            return Err(format!("is for a user and a password of one line and at most {MOST_NAME} bytes"));
        }
        Ok(Credentials { key, user: user.to_owned(), password: password.to_owned() })
    }

    /// Tokens of this moment, the likelier first: each shows the same to another version of iperf3.
    pub fn tokens(&self, now_s: u64) -> Result<Vec<String>, String> {
        let text = format!("user: {}\npwd:  {}\nts:   {now_s}", self.user, self.password);
        let too_long = |_| "user and password are too long for this key; make a longer key".to_owned();
        let mut octets = vec![0; self.key.key_size_bytes()];
        let oaep = OaepPublicEncryptingKey::new(self.key.clone()).map_err(too_long)?;
        let oaep =
            BASE64.encode(oaep.encrypt(&OAEP_SHA1_MGF1SHA1, text.as_bytes(), &mut octets, None).map_err(too_long)?);
        let pkcs1 = Pkcs1PublicEncryptingKey::new(self.key.clone()).map_err(too_long)?;
        let pkcs1 = BASE64.encode(pkcs1.encrypt(text.as_bytes(), &mut octets).map_err(too_long)?);
        Ok(vec![oaep, pkcs1])
    }
}

/// What a server knows: its private key, and its users.
#[derive(Debug)]
pub struct Guard {
    oaep: OaepPrivateDecryptingKey,
    pkcs1: Pkcs1PrivateDecryptingKey,
    /// SHA-256 of `{user}password`, by user.
    users: BTreeMap<String, Vec<u8>>,
}

impl Guard {
    /// `key`: the private key as PEM, without a passphrase. The error is a clause that ends in what to try.
    pub fn key(key: &str) -> Result<PrivateDecryptingKey, String> {
        let der = pem(key, "PRIVATE KEY").or_else(|| pem(key, "RSA PRIVATE KEY").map(|der| wrapped(&der)));
        let der = der.ok_or(
            "holds no private key in PEM that has no passphrase; make one with 'openssl genrsa -out private.pem 2048'",
        )?;
        PrivateDecryptingKey::from_pkcs8(&der).map_err(|error| {
            format!("holds a private key that cannot be used ({error}); make an RSA key of 2048 to 8192 bits")
        })
    }

    /// `users`: a line `user,SHA-256 in hexadecimal digits` for each; `#` begins a comment.
    pub fn users(users: &str) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let mut known = BTreeMap::new();
        for (number, line) in users.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry =
                line.split_once(',').and_then(|(user, hash)| Some((user.trim().to_owned(), unhex(hash.trim())?)));
            let (user, hash) = entry.ok_or(format!(
                "line {number} is not 'user,hash'; the hash is what \"echo -n '{{user}}password' | sha256sum\" prints"
            ))?;
            known.insert(user, hash);
        }
        if known.is_empty() { Err("names no user; add a line 'user,hash'".to_owned()) } else { Ok(known) }
    }

    /// A guard with this key, for these users.
    pub fn new(key: PrivateDecryptingKey, users: BTreeMap<String, Vec<u8>>) -> Result<Guard, String> {
        let unfit = |_| "holds a private key that cannot decrypt; make an RSA key of 2048 to 8192 bits".to_owned();
        let oaep = OaepPrivateDecryptingKey::new(key.clone()).map_err(unfit)?;
        Ok(Guard { oaep, pkcs1: Pkcs1PrivateDecryptingKey::new(key).map_err(unfit)?, users })
    }

    /// The user whose token this is; `None`: it is nobody's, or not of now.
    pub fn user(&self, token: &str, now_s: u64) -> Option<&str> {
        if token.len() > MOST_TOKEN {
            return None;
        }
        let token = octets_of(token)?;
        // Both, whichever fits: what is tried second takes no longer to refuse.
        let mut octets = [vec![0; self.oaep.min_output_size()], vec![0; self.pkcs1.min_output_size()]];
        let [oaep, pkcs1] = &mut octets;
        let oaep = self.oaep.decrypt(&OAEP_SHA1_MGF1SHA1, &token, oaep, None).ok();
        let pkcs1 = self.pkcs1.decrypt(&token, pkcs1).ok();
        [oaep.map(|text| &*text), pkcs1.map(|text| &*text)]
            .into_iter()
            .flatten()
            .find_map(|text| self.shown(text, now_s))
    }

    fn shown(&self, text: &[u8], now_s: u64) -> Option<&str> {
        let (user, password, at_s) = parse(std::str::from_utf8(text).ok()?)?;
        let (user, hash) = self.users.get_key_value(user)?;
        let given = digest(&SHA256, format!("{{{user}}}{password}").as_bytes());
        verify_slices_are_equal(given.as_ref(), hash).ok()?;
        (now_s.abs_diff(at_s) <= SKEW_S).then_some(user)
    }
}

/// User, password and time of a token's text.
fn parse(text: &str) -> Option<(&str, &str, u64)> {
    let mut lines = text.trim_end_matches('\0').split('\n');
    let user = lines.next()?.strip_prefix("user: ")?;
    let password = lines.next()?.strip_prefix("pwd:  ")?;
    let at_s = lines.next()?.strip_prefix("ts:   ")?.trim().parse().ok()?;
    Some((user, password, at_s))
}

/// The octets between the lines of PEM (RFC 7468) of this kind.
fn pem(text: &str, kind: &str) -> Option<Vec<u8>> {
    let after = text.split_once(&format!("-----BEGIN {kind}-----"))?.1;
    // A key with a passphrase has headers there, which are no base64.
    octets_of(after.split_once(&format!("-----END {kind}-----"))?.0)
}

/// Base64, in which white space is nothing; `None`: it is none.
fn octets_of(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.split_ascii_whitespace().collect::<String>()).ok()
}

/// A key of PKCS #1 (RFC 8017, A.1.2), as OpenSSL before 3.0 writes it, in PKCS #8 (RFC 5958).
fn wrapped(key: &[u8]) -> Vec<u8> {
    /// Version 0; rsaEncryption with the parameter NULL.
    const HEAD: &[u8] = b"\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let of = |tag: u8, content: &[u8]| {
        let len = (content.len() as u16).to_be_bytes();
        [&[tag, 0x82], &len[..], content].concat()
    };
    of(0x30, &[HEAD, &of(0x04, key)].concat())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let is_hash = text.len() == 64 && text.bytes().all(|octet| octet.is_ascii_hexdigit());
    is_hash.then(|| (0..32).filter_map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made for these tests with 'openssl genrsa 2048', in both of OpenSSL's forms, and 'openssl rsa -pubout'.
    const PRIVATE: &str = include_str!("../../tests/keys/private.pem");
    const OLD_PRIVATE: &str = include_str!("../../tests/keys/private_pkcs1.pem");
    const PUBLIC: &str = include_str!("../../tests/keys/public.pem");
    // echo -n '{mario}rossi' | sha256sum
    const USERS: &str = include_str!("../../tests/keys/users");

    fn guard(key: &str) -> Guard {
        Guard::new(Guard::key(key).unwrap(), Guard::users(USERS).unwrap()).unwrap()
    }

    #[test]
    fn a_user_is_known_by_either_token_for_a_while() {
        for key in [PRIVATE, OLD_PRIVATE] {
            let guard = guard(key);
            let tokens = Credentials::new(PUBLIC, "mario", "rossi").unwrap().tokens(1000).unwrap();
            assert_eq!(tokens.len(), 2);
            for token in &tokens {
                assert_eq!(guard.user(token, 1000 + SKEW_S), Some("mario"));
                assert_eq!(guard.user(token, 1000 - SKEW_S), Some("mario"));
                assert_eq!(guard.user(token, 1001 + SKEW_S), None, "too old");
                assert_eq!(guard.user(token, 999 - SKEW_S), None, "of the future");
            }
        }
    }

    #[test]
    fn strangers_are_nobody() {
        let guard = guard(PRIVATE);
        for (user, password) in [("mario", "Rossi"), ("mario", ""), ("luigi", "rossi"), ("mario}rossi", "")] {
            for token in Credentials::new(PUBLIC, user, password).unwrap().tokens(1000).unwrap() {
                assert_eq!(guard.user(&token, 1000), None, "{user} {password}");
            }
        }
        let zeros = BASE64.encode([0; 256]);
        let long = "A".repeat(100_000);
        for token in ["", "====", "Zm9v", "é", &zeros, &long] {
            assert_eq!(guard.user(token, 1000), None);
        }
    }

    #[test]
    fn a_text_is_what_iperf3_writes() {
        assert_eq!(parse("user: a b\npwd:  c,d\nts:   17"), Some(("a b", "c,d", 17)));
        for text in
            ["", "user: a", "user: a\npwd:  b\nts:   x", "user: a\npwd: b\nts:   1", "pwd:  b\nuser: a\nts:   1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        #[track_caller]
        fn check<T>(result: Result<T, String>, contains: &str) {
            let sentence = result.err().unwrap();
            assert!(sentence.contains(contains), "{sentence}");
        }
        check(Guard::key(PUBLIC), "no private key");
        check(Guard::key("-----BEGIN PRIVATE KEY-----\nZm9v\n-----END PRIVATE KEY-----"), "2048");
        check(Guard::users("# nobody\n"), "names no user");
        check(Guard::users("\nmario,zz\n"), "line 2");
        check(Credentials::new(PRIVATE, "a", "b"), "no public key");
        check(Credentials::new(PUBLIC, "a\nb", "c"), "one line");
        check(Credentials::new(PUBLIC, &"a".repeat(200), &"b".repeat(200)).unwrap().tokens(1), "longer key");
        assert!(!format!("{:?}", Credentials::new(PUBLIC, "a", "secret").unwrap()).contains("secret"));
    }
}
