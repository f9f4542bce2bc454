//! URLs of the Hub: the target of a redirect, whether it has the same origin, and what of a URL may be shown.

use ureq::http::Uri;

/// Resolves `location`, absolute or starting with a slash, against the URL `base`; `None` for any other.
pub(super) fn join(base: &str, location: &str) -> Option<String> {
    if !location.starts_with('/') {
        return ["http://", "https://"].iter().any(|s| location.starts_with(s)).then(|| location.into());
    }
    let base: Uri = base.parse().ok()?;
    let scheme = base.scheme_str()?;
    match location.starts_with("//") {
        true => Some(format!("{scheme}:{location}")), // another host, same scheme
        false => Some(format!("{scheme}://{}{location}", base.authority()?)),
    }
}

/// Whether two URLs have the same origin: scheme, host and port. A string that is no HTTP URL has none.
pub(super) fn same_origin(one: &str, other: &str) -> bool {
    let (one, other) = (origin(one), origin(other));
    one.is_some() && one == other
}

/// A URL for messages: without user name and password, and without its query, which may hold a signature that grants access.
pub(super) fn shown_url(url: &str) -> String {
    let url = url.split('?').next().unwrap_or(url);
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", authority.rsplit_once('@').map_or(authority, |(_, host)| host))
}

/// Scheme, host and port; the scheme's default port if none is given.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let url: Uri = url.parse().ok()?;
    let scheme = url.scheme_str()?.to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let port = url.port_u16().unwrap_or(usual);
    Some((scheme, url.host()?.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let hub = "https://hub.example";
        for same in ["https://hub.example/a", "https://HUB.example:443/b?c", "HTTPS://hub.example"] {
            assert!(same_origin(same, hub), "{same}");
        }
        let others = "http://hub.example/a http://hub.example:443/a https://hub.example:8443/a https://cdn.hub.example/a \
                      https://hub.example.evil/a https://hub.example@evil/a https://evil/https://hub.example \
                      ftp://hub.example/a /a";
        for other in others.split(' ').chain([""]) {
            assert!(!same_origin(other, hub), "{other}");
        }
        assert!(!same_origin("", "") && same_origin("http://h:80", "http://h/x"));
    }

    #[test]
    fn passwords_and_signatures_are_not_shown() {
        for (url, shown) in [
            ("https://me:p@ss@hub.example:8443/a@b/c?Signature=x", "https://hub.example:8443/a@b/c"),
            ("https://me:pass@hub.example", "https://hub.example"),
            ("https://hub.example/a/b", "https://hub.example/a/b"),
            ("hub.example?x", "hub.example"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }

    #[test]
    fn a_redirect_leads_somewhere_or_nowhere() {
        let to = |location| join("https://h:1/a/b", location);
        assert_eq!(to("/c").as_deref(), Some("https://h:1/c"));
        assert_eq!(to("//other/c").as_deref(), Some("https://other/c"));
        assert_eq!(to("http://other/c").as_deref(), Some("http://other/c"));
        assert_eq!((to("file:///c"), to("c")), (None, None));
    }
}
