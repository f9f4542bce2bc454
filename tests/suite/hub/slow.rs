//! Downloads that almost stall.

use std::fs;
use std::time::Duration;

use super::server::Reply;
use super::{client, hub, model, proceed, store, usual};
use ssmprobe::model::backbone::hub::{Hub, HubError};

/// One byte every 20 ms, on one connection or on a new one each: the download is given up, and resumed from what was kept.
#[test]
fn a_download_that_drips_is_given_up_and_resumed() {
    let pause = Duration::from_millis(20);
    for every_byte_breaks in [false, true] {
        let cache = tempfile::tempdir().unwrap();
        let dripping = store(move |request, model| Reply {
            drip: Some(pause),
            cut: every_byte_breaks.then_some(1),
            ..Reply::content(request, model)
        });
        let server = hub(&usual(), &dripping);
        let timeout = Duration::from_millis(500);
        let slow = Hub { timeout, ..client(&server, cache.path()) };
        let error = slow.resolve("org/name", &mut proceed).unwrap_err();
        let HubError::Interrupted { done, total, .. } = error else { panic!("{error}") };
        // All of it would take more than an hour.
        assert!(0 < done && done < total && total == model().len() as u64, "{done} of {total}");
        assert!(error.to_string().contains("start it again to resume"), "{error}");
        if !every_byte_breaks {
            assert!(error.to_string().contains("less than 65536 bytes received in 500ms"), "{error}");
        }

        let whole = store(Reply::content);
        let server = hub(&usual(), &whole);
        let dir = client(&server, cache.path()).resolve("org/name", &mut proceed).unwrap();
        assert_eq!(fs::read(dir.join("model.safetensors")).unwrap(), model());
        assert_eq!(whole.ranges(), [Some(format!("bytes={done}-"))]);
    }
}
