//! Addresses: what a server's may be, and which an answer may lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ureq::http::Uri;

/// Names in a query whose values are secrets.
const SENSITIVE: [&str; 6] = ["key", "api_key", "api-key", "apikey", "token", "access_token"];

/// The address of a server, from the setting `name`.
pub(super) fn check(name: &str, text: &str) -> Result<Uri, String> {
    if text.contains('@') {
        return Err(format!(
            "`{name}` contains @, as if it had a password; remove that part and name the key in `key`"
        ));
    }
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let secret = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
    if let Some(secret) = secret.into_iter().find(|name| SENSITIVE.contains(&name.to_ascii_lowercase().as_str())) {
        return Err(format!(
            "`{name}` has a key in its query ({secret}); remove it and name the key in `key` or `headers`"
        ));
    }
    let problem =
        || format!("`{name}` is {text:?}, which is not an address; write one such as \"http://localhost:8080/v1\"");
    let uri: Uri = text.parse().map_err(|_| problem())?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    if !has_scheme || uri.host().unwrap_or_default().is_empty() || text.contains('#') {
        return Err(problem());
    }
    Ok(uri)
}

/// The address of a server's API, and below it that of a call such as `/chat/completions`; a query stays at the end.
pub(super) fn endpoint(text: &str, call: &str) -> Result<Uri, String> {
    let base = check("base_url", text)?;
    let path = base.path().trim_end_matches('/');
    if let Some(shorter) = path.strip_suffix(call) {
        return Err(format!("`base_url` ends in {call:?}, which modelmix appends; end it in {shorter:?}"));
    }
    let query = base.query().map(|query| format!("?{query}")).unwrap_or_default();
    let origin = origin(&base);
    format!("{origin}{path}{call}{query}")
        .parse()
        .map_err(|_| format!("`base_url` is {text:?}, which is not an address; correct it"))
}

/// The scheme and the host with its port, in the form that equal servers share.
pub(super) fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    format!(
        "{scheme}://{}",
        uri.authority().map_or_else(String::new, |authority| authority.as_str().to_ascii_lowercase())
    )
}

/// The host and the port.
pub(super) fn place(uri: &Uri) -> (String, u16) {
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    (host, uri.port_u16().unwrap_or(default))
}

/// Whether the host is this machine.
pub(super) fn is_loopback(uri: &Uri) -> bool {
    let (host, _) = place(uri);
    let name = host.trim_end_matches('.');
    let is_name = name == "localhost" || name.ends_with(".localhost");
    is_name || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Refuses an address that a server sends if it leads to this machine or into a private network, unless the server is there
/// itself. It is resolved once more to connect, so a name server that lies can evade the check.
pub(super) fn check_public(uri: &Uri, server: &Uri, time_limit: Duration) -> Result<(), String> {
    if is_loopback(server) || place(uri) == place(server) {
        return Ok(());
    }
    let place = place(uri);
    let host = place.0.clone();
    let refused = || format!("the answer leads to {host}, which is not a public host; use a server that sends base64");
    if is_loopback(uri) {
        return Err(refused());
    }
    let (sender, receiver) = mpsc::channel();
    // A resolver has no time limit of its own.
    thread::spawn(move || sender.send((place.0.as_str(), place.1).to_socket_addrs().map(Vec::from_iter)));
    match receiver.recv_timeout(time_limit) {
        Ok(Ok(found)) if found.iter().map(SocketAddr::ip).any(is_private) => Err(refused()),
        // A proxy may know a host that this machine does not; if there is none, connecting says so.
        _ => Ok(()),
    }
}

/// Whether an address is not reachable from everywhere.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        // "This network" (RFC 1122) and addresses that providers share (RFC 6598).
        || first == 0
        || (first == 100 && second & 0xc0 == 64)
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| is_private_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_private_v4(mapped);
    }
    match segments {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056) carry an address of version 4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        [first, ..] => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || first & 0xfe00 == 0xfc00
                || first & 0xffc0 == 0xfe80
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::{check, check_public, endpoint, is_loopback, is_private};

    #[test]
    fn calls_are_appended_before_the_query() {
        let join = |text| endpoint(text, "/chat/completions").map(|uri| uri.to_string());
        assert_eq!(join("http://localhost:80/v1/").unwrap(), "http://localhost:80/v1/chat/completions");
        assert_eq!(join("https://a.example/d?v=1").unwrap(), "https://a.example/d/chat/completions?v=1");
        assert_eq!(join("http://[::1]:8080").unwrap(), "http://[::1]:8080/chat/completions");
        assert!(join("http://h/v1/chat/completions").unwrap_err().contains("end it in \"/v1\""));
    }

    #[test]
    fn addresses_that_cannot_work_are_refused() {
        for text in ["", "localhost:8080", "/v1", "ftp://h/v1", "http://", "http://h/#a", "file:///etc/passwd"] {
            assert!(check("base_url", text).unwrap_err().contains("not an address"), "{text}");
        }
        for text in ["http://user:canary@h/v1", "http://h/v1?api_key=canary", "http://h/v1?a=b&KEY=canary"] {
            let problem = check("base_url", text).unwrap_err();
            assert!(problem.contains("`key`") && !problem.contains("canary"), "{problem}");
        }
    }

    #[test]
    fn private_addresses_are_known() {
        // Of RFC 1122, 1918, 3927, 4193, 4291, 6052, 6598 and 3056.
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:a00:1::",
        ];
        for address in private {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_answer_leads_to_public_hosts_only() {
        let (public, private) = ("https://1.1.1.1/v1".parse().unwrap(), "http://192.168.1.5:80/v1".parse().unwrap());
        let check = |text: &str, server| check_public(&text.parse().unwrap(), server, Duration::from_millis(200));
        for text in
            ["http://127.0.0.1/a", "http://localhost:1/a", "http://a.localhost/", "http://[::1]/a", "http://10.0.0.1/a"]
        {
            assert!(check(text, &public).unwrap_err().contains("not a public host"), "{text}");
        }
        assert!(check("http://1.0.0.1/a", &public).is_ok());
        assert!(check("http://192.168.1.5/a", &private).is_ok(), "the server itself");
        assert!(check("http://192.168.1.6/a", &private).is_err());
        assert!(check("http://127.0.0.1:9/a", &"http://localhost:8/v1".parse().unwrap()).is_ok());
        assert!(is_loopback(&"http://LOCALHOST./".parse().unwrap()));
    }
}
