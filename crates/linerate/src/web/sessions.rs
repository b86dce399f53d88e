//! Who may look: a browser with the token, which it exchanges for a cookie once.
//! Knows digests only, so that nothing is compared octet by octet.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use linerate_machine::sync::Mutex;
use sha2::{Digest, Sha256};

use crate::input_file;

/// The most browsers that are signed in; the oldest gives way.
const MOST: usize = 64;

type Digested = [u8; 32];

/// The server's secret, in a file that only this user reads; it goes with the value.
#[derive(Debug)]
pub(crate) struct Token {
    text: String,
    file: PathBuf,
}

impl Token {
    /// A new one in this file, instead of what an earlier server left there.
    pub(crate) fn make(file: &Path) -> Result<Token> {
        let text = secret()?;
        let said =
            || format!("the token cannot be kept in {}; name another folder with XDG_RUNTIME_DIR", file.display());
        match fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(said),
            _ => {}
        }
        // A file that is new: nobody has opened it, and no link leads elsewhere.
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        made.and_then(|mut made| made.write_all(format!("{text}\n").as_bytes())).with_context(said)?;
        Ok(Token { text, file: file.to_owned() })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // What another server has put there since is that one's.
        if input_file::text(&self.file).is_ok_and(|text| text.trim() == self.text) {
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// What a scraper shows: a file's text, which stays when the server ends, so that a scraper's configuration can name it.
#[derive(Debug)]
pub(crate) struct ScraperToken(Digested);

/// The shortest token, characters: by chance, nobody finds one.
const SHORTEST: usize = 32;

impl ScraperToken {
    /// The token in this file; a new one, where there is none. The group may read it, and nobody else: a scraper runs as
    /// somebody else.
    pub(crate) fn of(file: &Path) -> Result<ScraperToken> {
        let said = || format!("--metrics: the token cannot be kept in {}; name another file", file.display());
        let text = match input_file::text(file) {
            Ok(text) => text,
            Err(error) if error.is_absent() => {
                let text = secret()?;
                let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
                made.and_then(|mut made| made.write_all(format!("{text}\n").as_bytes())).with_context(said)?;
                return Ok(ScraperToken(digest(&text)));
            }
            Err(error) => return Err(error).context("--metrics"),
        };
        let mode = fs::metadata(file).with_context(said)?.mode();
        if mode & 0o027 != 0 {
            bail!(
                "--metrics: others may read or change {}, which has the token; make it yours: chmod 640 {}",
                file.display(),
                file.display()
            );
        }
        let text = text.trim();
        if text.len() < SHORTEST || !text.chars().all(|c| c.is_ascii_graphic()) {
            bail!(
                "--metrics: {} has no token of {SHORTEST} characters or more in one word; remove it, and a new one is made there",
                file.display()
            );
        }
        Ok(ScraperToken(digest(text)))
    }

    pub(super) fn is(&self, text: &str) -> bool {
        digest(text) == self.0
    }
}

/// Those that are let in.
pub(super) struct Sessions {
    token: Digested,
    cookies: Mutex<VecDeque<Digested>>,
}

impl Sessions {
    pub(super) fn new(token: &Token) -> Sessions {
        Sessions { token: digest(token.text()), cookies: Mutex::default() }
    }

    pub(super) fn is_token(&self, text: &str) -> bool {
        digest(text) == self.token
    }

    /// A cookie's value, for a browser that showed the token.
    pub(super) fn begin(&self) -> Result<String> {
        let text = secret()?;
        let mut cookies = self.cookies.lock();
        if cookies.len() == MOST {
            cookies.pop_front();
        }
        cookies.push_back(digest(&text));
        Ok(text)
    }

    pub(super) fn is_cookie(&self, text: &str) -> bool {
        let wanted = digest(text);
        self.cookies.lock().contains(&wanted)
    }

    /// The browser looks no more.
    pub(super) fn end(&self, text: &str) {
        let wanted = digest(text);
        self.cookies.lock().retain(|one| *one != wanted);
    }
}

fn digest(text: &str) -> Digested {
    Sha256::digest(text.as_bytes()).into()
}

/// 256 bits by chance, as a URL can have them.
fn secret() -> Result<String> {
    let mut octets = [0_u8; 32];
    getrandom::fill(&mut octets)
        .map_err(|error| anyhow!("this machine gives no random numbers ({error}); try again"))?;
    Ok(octets.map(|octet| format!("{octet:02x}")).concat())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_this_users_alone_and_goes_with_the_server() {
        let file = std::env::temp_dir().join(format!("linerate-token-{}", std::process::id()));
        fs::write(&file, "left by another").unwrap();
        let token = Token::make(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((fs::read_to_string(&file).unwrap().trim(), token.text().len()), (token.text(), 64));
        let sessions = Sessions::new(&token);
        assert!(sessions.is_token(token.text()) && !sessions.is_token("") && !sessions.is_token(&token.text()[..63]));
        let other = Token::make(&file).unwrap();
        drop(token);
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), other.text(), "it is the other server's now");
        drop(other);
        assert!(!file.exists());
    }

    #[test]
    fn a_scrapers_token_stays_and_is_nobody_elses() {
        let file = std::env::temp_dir().join(format!("linerate-scraper-{}", std::process::id()));
        let _ = fs::remove_file(&file);
        let made = ScraperToken::of(&file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(made.is(text.trim()) && !made.is("") && !made.is(&text.trim()[1..]));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(ScraperToken::of(&file).unwrap().is(text.trim()), "the next server has the same");
        for (mode, is_refused) in [(0o640, false), (0o644, true), (0o660, true), (0o602, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(ScraperToken::of(&file).is_err(), is_refused, "{mode:o}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        for bad in ["", "short", "two words that are long enough for a token", "ä".repeat(40).as_str()] {
            fs::write(&file, bad).unwrap();
            let error = ScraperToken::of(&file).unwrap_err().to_string();
            assert!(error.contains("no token of 32 characters") && !error.contains("short"), "{error}");
        }
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_cookie_is_one_that_was_given() {
        let file = std::env::temp_dir().join(format!("linerate-token-cookies-{}", std::process::id()));
        let token = Token::make(&file).unwrap();
        let sessions = Sessions::new(&token);
        let first = sessions.begin().unwrap();
        assert!(sessions.is_cookie(&first) && !sessions.is_cookie(token.text()) && !sessions.is_token(&first));
        let second = sessions.begin().unwrap();
        sessions.end(&first);
        assert!(!sessions.is_cookie(&first) && sessions.is_cookie(&second));
        (0..MOST).for_each(|_| drop(sessions.begin().unwrap()));
        assert!(!sessions.is_cookie(&second), "the oldest goes");
    }
}
