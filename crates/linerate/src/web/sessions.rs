//! Who may look: whoever has the token, which is exchanged for a cookie once a browser.
//! Knows digests only, so that nothing is compared octet by octet.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

/// So many browsers at most; the one that came first goes.
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
        let _ = fs::remove_file(&self.file);
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

    /// A cookie's value for whoever has the token.
    pub(super) fn begin(&self) -> Result<String> {
        let text = secret()?;
        let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        if cookies.len() == MOST {
            cookies.pop_front();
        }
        cookies.push_back(digest(&text));
        Ok(text)
    }

    pub(super) fn is_cookie(&self, text: &str) -> bool {
        let wanted = digest(text);
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner).contains(&wanted)
    }

    /// The browser looks no more.
    pub(super) fn end(&self, text: &str) {
        let wanted = digest(text);
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner).retain(|one| *one != wanted);
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
        drop(token);
        assert!(!file.exists());
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
