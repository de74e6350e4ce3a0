//! What holds for every answer: by which names this server may be called, where a change may come from, and what a browser may do with a page.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// What a page may do: show what this server gives, and nothing else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types stepgate";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
];

/// The names by which the dashboard may be called. A page of somebody else, whose name leads to this machine, has another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    /// The address that is listened on, loopback where that is one, and the names that the operator gives.
    pub(super) fn of(address: SocketAddr, named: &[String]) -> Self {
        let mut hosts: Vec<String> = named.iter().map(|name| name.to_ascii_lowercase()).collect();
        hosts.push(bare(address.ip()));
        if address.ip().is_loopback() || address.ip().is_unspecified() {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        Self(hosts)
    }

    fn allow(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::HOST).iter();
        let one = values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok());
        one.is_some_and(|host| {
            let host = host.to_ascii_lowercase();
            self.0.iter().any(|allowed| {
                let port = host.strip_prefix(allowed.as_str());
                port.is_some_and(|port| {
                    let number = port.strip_prefix(':');
                    port.is_empty() || number.is_some_and(|it| it.parse::<u16>().is_ok())
                })
            })
        })
    }
}

fn bare(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Lets a request through, or refuses it, and says what a browser may do with the answer.
pub(super) async fn guard(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let mut response = match refused(&hosts, request.method(), request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn refused(hosts: &Hosts, method: &Method, headers: &HeaderMap) -> Option<Response> {
    if !hosts.allow(headers) {
        let told = "this name does not lead here: call the dashboard by the address it listens on, or name yours with --web-host\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, told).into_response());
    }
    if !method.is_safe() && !is_from_here(headers) {
        return Some((StatusCode::FORBIDDEN, "forms of other sites are not taken\n").into_response());
    }
    None
}

/// Whether a browser says that a change comes from a page of this server. A program says nothing of it: it shows a token of its own.
fn is_from_here(headers: &HeaderMap) -> bool {
    let said = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(|value| value.to_str().unwrap_or("?").to_ascii_lowercase());
        if values.next().is_some() { Some("?".to_owned()) } else { first }
    };
    let site = said(HeaderName::from_static("sec-fetch-site"));
    let host = said(header::HOST).unwrap_or_default();
    let is_own = |origin: &str| {
        let name = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        name == Some(host.as_str())
    };
    let site = site.as_deref();
    // Pages that tell nobody where somebody came from, as ours do, send their forms from no origin: then the other word has to be there.
    let is_untold = |origin: &str| origin == "null" && site == Some("same-origin");
    matches!(site, None | Some("same-origin" | "none"))
        && said(header::ORIGIN).is_none_or(|origin| is_own(&origin) || is_untold(&origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = values.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        pairs.collect()
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        let hosts = Hosts::of("127.0.0.1:8090".parse().unwrap(), &["Fleet.example.com".to_owned()]);
        for (host, expected) in [
            ("127.0.0.1:8090", true),
            ("localhost", true),
            ("[::1]:8090", true),
            ("fleet.example.com", true),
            ("FLEET.example.com:443", true),
            ("fleet.example.com.attacker.example", false),
            ("attacker.example:8090", false),
            ("localhost:8090@attacker.example", false),
            ("localhost:", false),
            ("", false),
        ] {
            assert_eq!(hosts.allow(&headers(&[("host", host)])), expected, "{host}");
        }
        assert!(!hosts.allow(&HeaderMap::new()));
        let twice: HeaderMap =
            ["localhost", "localhost"].iter().map(|it| (header::HOST, it.parse().unwrap())).collect();
        assert!(!hosts.allow(&twice));
    }

    #[test]
    fn another_address_is_not_called_by_loopback() {
        let hosts = Hosts::of("192.0.2.7:80".parse().unwrap(), &[]);
        assert!(hosts.allow(&headers(&[("host", "192.0.2.7")])));
        assert!(!hosts.allow(&headers(&[("host", "localhost")])));
    }

    #[test]
    fn forms_of_other_sites_are_refused() {
        let hosts = Hosts::of("127.0.0.1:80".parse().unwrap(), &[]);
        let refused = |method: Method, site: &str| {
            refused(&hosts, &method, &headers(&[("host", "localhost"), ("sec-fetch-site", site)])).is_some()
        };
        assert!(refused(Method::POST, "cross-site") && refused(Method::POST, "same-site"));
        assert!(!refused(Method::POST, "same-origin") && !refused(Method::GET, "cross-site"));
    }

    #[test]
    fn a_change_comes_from_a_page_of_this_server_by_either_word_of_the_browser() {
        for (said, expected) in [
            (&[][..], true),
            (&[("origin", "http://localhost:80")], true),
            (&[("origin", "https://localhost:80")], true),
            (&[("origin", "http://localhost:81")], false),
            (&[("origin", "http://attacker.example")], false),
            (&[("origin", "null")], false),
            (&[("origin", "null"), ("sec-fetch-site", "same-origin")], true),
            (&[("origin", "null"), ("sec-fetch-site", "cross-site")], false),
            (&[("origin", "null"), ("sec-fetch-site", "none")], false),
            (&[("origin", "")], false),
            (&[("origin", "http://localhost:80"), ("sec-fetch-site", "cross-site")], false),
            (&[("origin", "http://attacker.example"), ("sec-fetch-site", "same-origin")], false),
        ] {
            let headers = headers(&[&[("host", "localhost:80")], said].concat());
            assert_eq!(is_from_here(&headers), expected, "{said:?}");
        }
    }
}
