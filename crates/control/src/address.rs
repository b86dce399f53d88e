//! Hosts, ports and users as they are written, and as ssh takes them.
//! Knows no endpoint, and looks nothing up.

/// Whether ssh takes this for a user: a name that starts with '-' would be an option.
pub(crate) fn is_user(user: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "'\"`$;&|<>(){}".contains(c);
    !(user.is_empty() || user.starts_with('-') || user.contains(odd))
}

/// `host`, `host:port`, `[address]` or `[address]:port`.
pub(crate) fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
        let address = host.split_once('%').map_or(host, |(address, _zone)| address);
        address.parse::<std::net::Ipv6Addr>().map_err(|_| "what stands in brackets is no IPv6 address")?;
        match after {
            "" => (host, None),
            _ => (host, Some(after.strip_prefix(':').ok_or("after the bracket comes ':' and the port")?)),
        }
    } else {
        match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => return Err("an IPv6 address stands in brackets".to_owned()),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err("the host is missing".to_owned());
    }
    if host.starts_with('-') {
        return Err("a host does not begin with '-'".to_owned());
    }
    let known = |c: char| c.is_alphanumeric() || "-._:%".contains(c);
    if !host.chars().all(known) {
        return Err("that is no name of a host".to_owned());
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            Ok(number @ 1..) if !port.starts_with('+') => Some(number),
            _ => return Err(format!("'{}' is not a port (1 to 65535)", port.escape_debug())),
        },
    };
    Ok((host.to_owned(), port))
}
