//! A check of whether the Hub is reachable.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use super::{Hub, download};

/// Time limit of the request.
const PATIENCE: Duration = Duration::from_secs(10);

impl Hub {
    /// The HTTP status of the endpoint's front page, requested without the token; or why there is no response.
    pub fn reach(&self) -> Result<u16, String> {
        let roots = self.certificates.as_deref().map_or(Ok(RootCerts::WebPki), download::certificates);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("ssmprobe/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(TlsConfig::builder().root_certs(roots.map_err(|error| error.to_string())?).build());
        let agent: Agent = config.build().into();
        agent
            .head(&self.endpoint)
            .call()
            .map(|answer| answer.status().as_u16())
            .map_err(|error| error.to_string())
    }
}
