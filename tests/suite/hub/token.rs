//! The token is sent to the endpoint's scheme, host and port alone, wherever a redirect leads.

use std::fs;

use super::server::{Reply, Request, Server};
use super::{client, hub, model, proceed, store, usual};
use ssmprobe::model::backbone::hub::Hub;

const TOKEN: &str = "Bearer hf_secret";

/// A Hub that answers every request with a redirect to the same path of `base`.
fn redirecting_hub(base: String) -> Server {
    Server::start(move |request| Reply::status(307).with("Location", format!("{base}{}", request.path)))
}

/// The `Authorization` header of every request.
fn tokens(server: &Server) -> Vec<Option<String>> {
    let of = |request: Request| request.header("authorization").map(str::to_owned);
    server.requests().into_iter().map(of).collect()
}

/// Requests for metadata and for contents are redirected to another port of the same address, and to another name of it.
#[test]
fn the_token_goes_to_no_other_port_and_no_other_name() {
    let store = store(Reply::content);
    for host in ["127.0.0.1", "localhost"] {
        let cache = tempfile::tempdir().unwrap();
        let other = hub(&usual(), &store);
        let endpoint = redirecting_hub(format!("http://{host}:{}", other.port));
        let client = Hub { token: Some("hf_secret".into()), ..client(&endpoint, cache.path()) };
        let dir = client.resolve("org/name", &mut proceed).unwrap();
        assert_eq!(fs::read(dir.join("model.safetensors")).unwrap(), model());
        let (here, there) = (tokens(&endpoint), tokens(&other));
        assert!(here.len() > 3 && here.iter().all(|token| token.as_deref() == Some(TOKEN)), "{here:?}");
        assert!(there.len() > 3 && there.iter().all(Option::is_none), "{host} heard the token: {there:?}");
    }
    assert!(tokens(&store).iter().all(Option::is_none));
}

/// A redirect within the endpoint keeps the token.
#[test]
fn the_token_stays_with_the_endpoint() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(Reply::content);
    let inner = hub(&usual(), &store);
    let base = format!("http://127.0.0.1:{}", inner.port);
    let client = Hub { token: Some("hf_secret".into()), endpoint: base, ..client(&inner, cache.path()) };
    client.resolve("org/name", &mut proceed).unwrap();
    let (hub, store) = (tokens(&inner), tokens(&store));
    assert!(hub.len() > 3 && hub.iter().all(|token| token.as_deref() == Some(TOKEN)), "{hub:?}");
    assert!(!store.is_empty() && store.iter().all(Option::is_none), "{store:?}");
}

/// A download that redirects in a circle ends with an error.
#[test]
fn contents_that_redirect_in_a_circle_are_refused() {
    let cache = tempfile::tempdir().unwrap();
    let circle =
        |request: &Request, _: &[u8]| Reply::status(302).with("Location", format!("{}?again", request.path));
    let store = store(circle);
    let server = hub(&usual(), &store);
    let error = client(&server, cache.path()).resolve("org/name", &mut proceed).unwrap_err().to_string();
    assert!(error.contains("too many redirects"), "{error}");
    assert!(store.requests().len() <= 11, "{} requests", store.requests().len());
}
