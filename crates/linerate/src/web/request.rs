//! A request as views read it: a path in its parts, and values by names. All of it is a stranger's until a view has parsed it.

use form_urlencoded::{Serializer, byte_serialize, parse};

/// Whether this field `Accept` allows OpenMetrics, and not only Prometheus' own text format.
pub(super) fn reads_openmetrics(accept: Option<&str>) -> bool {
    accept.is_some_and(|kinds| kinds.contains("application/openmetrics-text"))
}

/// More names than any form has.
const MOST_VALUES: usize = 200;

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct WebRequest {
    pub(super) is_post: bool,
    path: Vec<String>,
    query: Vec<(String, String)>,
    /// Of a form that was posted.
    form: Vec<(String, String)>,
    /// Who asks, for people.
    pub(super) who: String,
    /// OpenMetrics can be read there.
    pub(super) reads_openmetrics: bool,
}

impl WebRequest {
    /// Of the path and the query as they stand in the request's first line; `None` where they are no text.
    pub(super) fn new(path: &str, query: &str) -> Option<WebRequest> {
        let part = |part: &str| {
            // In a path, unlike in a query, a plus is a plus.
            let whole = format!("x={}", part.replace('+', "%2B"));
            parse(whole.as_bytes()).next().map(|(_, value)| value.into_owned())
        };
        let path = path.split('/').filter(|one| !one.is_empty()).map(part).collect::<Option<Vec<_>>>()?;
        let is_text = |text: &String| !text.contains('\u{fffd}') && !text.contains('\0');
        let query = values(query.as_bytes());
        (path.len() < 8 && path.iter().all(is_text)).then(|| WebRequest { path, query, ..WebRequest::default() })
    }

    pub(super) fn post(self, body: &[u8]) -> WebRequest {
        WebRequest { is_post: true, form: values(body), ..self }
    }

    pub(super) fn by(self, who: String) -> WebRequest {
        WebRequest { who, ..self }
    }

    /// Whose field `Accept` this is.
    pub(super) fn accepting(self, accept: Option<&str>) -> WebRequest {
        WebRequest { reads_openmetrics: reads_openmetrics(accept), ..self }
    }

    /// The parts of the path.
    pub(super) fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// A value of the query, without blanks around it; an empty field is none.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        of(&self.query, name).next()
    }

    /// A value of the form.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        of(&self.form, name).next()
    }

    /// All values of that name: a text with one a line is several.
    pub(super) fn lines(&self, name: &str) -> Vec<&str> {
        let all = if self.is_post { &self.form } else { &self.query };
        of(all, name).flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty()).collect()
    }

    /// The address with these values instead of its own of the same names, and without what has no value.
    pub(super) fn address(&self, values: &[(&str, &str)]) -> String {
        let is_other = |name: &str| !values.iter().any(|(other, _)| *other == name);
        let kept =
            self.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).filter(|(name, _)| is_other(name));
        let mut query = Serializer::new(String::new());
        query.extend_pairs(kept.chain(values.iter().copied()).filter(|(_, value)| !value.is_empty()));
        let query = query.finish();
        let part = |part: &String| byte_serialize(part.as_bytes()).collect::<String>().replace('+', "%20");
        let path = self.path.iter().map(part).collect::<Vec<_>>().join("/");
        format!("/{path}{}{query}", if query.is_empty() { "" } else { "?" })
    }

    /// The address with another text as the second part of its path.
    pub(super) fn address_of(&self, second: &str) -> String {
        let mut other = self.clone();
        if let Some(part) = other.path.get_mut(1) {
            second.clone_into(part);
        }
        other.address(&[])
    }

    /// The same as the beginning of an address to which values can be added.
    pub(super) fn open_address(&self) -> String {
        let address = self.address(&[("form", ""), ("table", ""), ("figure", "")]);
        if address.contains('?') { format!("{address}&") } else { format!("{address}?") }
    }
}

fn values(text: &[u8]) -> Vec<(String, String)> {
    parse(text).take(MOST_VALUES).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn of<'a>(values: &'a [(String, String)], name: &str) -> impl Iterator<Item = &'a str> {
    values
        .iter()
        .filter(move |(other, _)| other == name)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_stable() {
        let asked = WebRequest::new("/record/a%20b+c/", "plan=udp+sweep&limit=&form=csv&x=%3Cb%3E").unwrap();
        assert_eq!(asked.path(), ["record", "a b+c"]);
        assert_eq!((asked.value("plan"), asked.value("limit"), asked.value("y")), (Some("udp sweep"), None, None));
        assert_eq!(asked.address(&[("page", "2"), ("x", "")]), "/record/a%20b%2Bc?plan=udp+sweep&form=csv&page=2");
        assert_eq!(asked.address_of("01"), "/record/01?plan=udp+sweep&form=csv&x=%3Cb%3E");
        assert_eq!(asked.open_address(), "/record/a%20b%2Bc?plan=udp+sweep&x=%3Cb%3E&");
        let again = WebRequest::new("/record/a%20b%2Bc", "").unwrap();
        assert_eq!((again.path(), again.open_address()), (asked.path(), "/record/a%20b%2Bc?".to_owned()));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for path in ["/%ff", "/a%00b", "/a/a/a/a/a/a/a/a/a"] {
            assert!(WebRequest::new(path, "").is_none(), "{path}");
        }
        let many = "a=1&".repeat(10_000);
        assert_eq!(WebRequest::new("/", &many).unwrap().query.len(), MOST_VALUES);
    }

    #[test]
    fn lines_of_a_form() {
        let asked = WebRequest::new("/runs", "set=no").unwrap().post(b"set=rate%3D1M%0D%0A+%0Ambit%3D2&set=c");
        assert_eq!(
            (asked.lines("set"), asked.field("set")),
            (vec!["rate=1M", "mbit=2", "c"], Some("rate=1M\r\n \nmbit=2"))
        );
    }
}
