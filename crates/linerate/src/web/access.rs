//! Who may ask, told from a request's head alone: before anything is read of it, and for every address alike.
//!
//! To listen on the loopback protects nothing from a browser: any page can have it ask there. A name that was made to point to
//! 127.0.0.1 is not ours (`Host`); another page's requests say where they are from (`Sec-Fetch-Site`, `Origin`); and nothing is
//! told without the cookie, which only the token's owner gets. Ports of one host share cookies and are one site, so
//! "same-site" is another's.

/// What of a head is looked at; a field that comes twice is as good as a wrong one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head<'a> {
    pub(super) method: &'a str,
    pub(super) host: Option<&'a str>,
    /// Of a request line with a whole address in it.
    pub(super) authority: Option<&'a str>,
    pub(super) origin: Option<&'a str>,
    pub(super) fetch_site: Option<&'a str>,
    pub(super) fetch_mode: Option<&'a str>,
    pub(super) fetch_dest: Option<&'a str>,
    /// It has the token in a field that no page of another's can set.
    pub(super) has_token: bool,
    /// It has a cookie that was given here.
    pub(super) has_cookie: bool,
}

/// What is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// A browser that may look.
    Known,
    /// A stranger: may see how to sign in, and style sheets and scripts, which say nothing of the lab.
    Unknown,
}

/// What is not: a status, and why.
pub(super) type Refusal = (u16, &'static str);

/// The names under which this server is.
pub(super) struct Gate {
    names: Vec<String>,
}

/// Those of the loopback.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Gate {
    pub(super) fn new(names: Vec<String>) -> Gate {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase());
        Gate { names: LOOPBACK.map(str::to_owned).into_iter().chain(names).collect() }
    }

    pub(super) fn passes(&self, head: &Head<'_>) -> Result<Passed, Refusal> {
        let host = head.host.filter(|host| self.is_named(host)).ok_or((
            421,
            "This server is reached as localhost, 127.0.0.1 or [::1]; for another name, start linerate web with --name NAME.",
        ))?;
        if head.authority.is_some_and(|authority| !authority.eq_ignore_ascii_case(host)) {
            return Err((421, "The address and the field Host name different servers."));
        }
        let is_own = matches!(head.fetch_site, Some("same-origin"));
        let is_origin_own = head.origin.map(|origin| is_origin(origin, host));
        match head.method {
            "GET" | "HEAD" => {
                // A page reached by a link from another site is shown to the user alone: no frame may embed it.
                let is_followed = head.fetch_mode == Some("navigate") && head.fetch_dest == Some("document");
                if !(is_own || matches!(head.fetch_site, None | Some("none")) || is_followed) {
                    return Err((403, "Another site's page asked for this; open it yourself."));
                }
                if is_origin_own == Some(false) && !is_followed {
                    return Err((403, "Another site's page asked for this; open it yourself."));
                }
            }
            "POST" => {
                let is_program = head.fetch_site.is_none() && head.origin.is_none();
                if is_program && !head.has_token {
                    return Err((403, "Without a browser this needs the token: Authorization: Bearer TOKEN."));
                }
                if !(is_program || is_own && is_origin_own == Some(true)) {
                    return Err((403, "Another site's page asked for this; nothing was done."));
                }
            }
            _ => return Err((405, "Only GET, HEAD and POST mean something here.")),
        }
        Ok(if head.has_cookie || head.has_token { Passed::Known } else { Passed::Unknown })
    }

    fn is_named(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() && !name.ends_with(':') => name,
            _ => host,
        };
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Whether an origin is this host's own; a proxy may speak TLS to the browser.
fn is_origin(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Head<'_> = Head {
        method: "GET",
        host: Some("127.0.0.1:4780"),
        authority: None,
        origin: None,
        fetch_site: Some("same-origin"),
        fetch_mode: Some("cors"),
        fetch_dest: Some("empty"),
        has_token: false,
        has_cookie: true,
    };
    const POST: Head<'_> = Head { method: "POST", origin: Some("http://127.0.0.1:4780"), ..OWN };
    const PROGRAM: Head<'_> = Head { fetch_site: None, fetch_mode: None, fetch_dest: None, has_cookie: false, ..OWN };

    #[track_caller]
    fn check(head: Head<'_>, want: Result<Passed, u16>) {
        let gate = Gate::new(vec!["Lab.example".to_owned()]);
        assert_eq!(gate.passes(&head).map_err(|(status, _)| status), want, "{head:?}");
    }

    #[test]
    fn hosts() {
        for host in
            ["localhost", "localhost:1", "LOCALHOST:65535", "[::1]:4780", "[::1]", "127.0.0.1", "lab.EXAMPLE:80"]
        {
            check(Head { host: Some(host), ..OWN }, Ok(Passed::Known));
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io:4780",
            "127.1",
            "2130706433",
            "[::ffff:127.0.0.1]",
            "",
            ":4780",
            "localhost:",
            "localhost:99999",
            "localhost:4780:1",
            "::1",
            "localhost ",
            "0.0.0.0:4780",
            "a@localhost",
        ] {
            check(Head { host: Some(host), ..OWN }, Err(421));
        }
        check(Head { host: None, ..OWN }, Err(421));
        check(Head { authority: Some("evil.example"), ..OWN }, Err(421));
        check(Head { authority: Some("127.0.0.1:4780"), ..OWN }, Ok(Passed::Known));
    }

    #[test]
    fn looking() {
        check(OWN, Ok(Passed::Known));
        check(Head { has_cookie: false, ..OWN }, Ok(Passed::Unknown));
        check(PROGRAM, Ok(Passed::Unknown));
        check(Head { has_token: true, ..PROGRAM }, Ok(Passed::Known));
        for site in ["same-site", "cross-site", "odd", ""] {
            check(Head { fetch_site: Some(site), ..OWN }, Err(403));
            let followed = Head { fetch_mode: Some("navigate"), fetch_dest: Some("document"), ..OWN };
            check(Head { fetch_site: Some(site), ..followed }, Ok(Passed::Known));
            check(Head { fetch_site: Some(site), fetch_dest: Some("iframe"), ..followed }, Err(403));
        }
        check(Head { origin: Some("http://localhost:8000"), ..OWN }, Err(403));
        for method in ["PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get", ""] {
            check(Head { method, ..OWN }, Err(405));
        }
    }

    #[test]
    fn doing() {
        check(POST, Ok(Passed::Known));
        check(Head { origin: Some("https://127.0.0.1:4780"), ..POST }, Ok(Passed::Known));
        check(Head { has_cookie: false, ..POST }, Ok(Passed::Unknown));
        for origin in
            [None, Some("null"), Some("http://127.0.0.1:4781"), Some("http://localhost:4780"), Some("127.0.0.1:4780")]
        {
            check(Head { origin, ..POST }, Err(403));
        }
        for site in [None, Some("same-site"), Some("cross-site"), Some("none")] {
            check(Head { fetch_site: site, ..POST }, Err(403));
        }
        // The token in a field helps no page of another's: it cannot know it. But a request that says where it is from is held
        // to that.
        check(Head { fetch_site: Some("cross-site"), has_token: true, ..POST }, Err(403));
        let program = Head { method: "POST", ..PROGRAM };
        check(program, Err(403));
        check(Head { has_cookie: true, ..program }, Err(403));
        check(Head { has_token: true, ..program }, Ok(Passed::Known));
    }
}
