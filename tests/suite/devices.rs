//! `ssmprobe devices` from the command line.

use crate::run::prelude::*;

fn devices(arguments: &[&str]) -> Command {
    let mut command = program();
    command.arg("devices").args(arguments);
    command
}

#[test]
fn lists_the_processor_and_says_what_auto_takes() {
    let text = done(&mut devices(&[]));
    assert!(text.lines().next().unwrap().starts_with("cpu "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("auto selects ")), "{text}");
}

#[test]
fn json_has_every_limit_and_a_check_of_each_device() {
    let report: Value = serde_json::from_str(&done(&mut devices(&["--json", "--check"]))).unwrap();
    let listed = report["devices"].as_array().unwrap();
    let names: Vec<_> = listed.iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "cpu");
    assert!(names.contains(&report["auto"]["name"].as_str().unwrap()), "{report:#}");
    assert!(!report["auto"]["why"].as_str().unwrap().is_empty());
    for device in listed {
        for field in ["name", "adapter", "type", "api", "driver", "max_buffer", "max_binding", "memory"] {
            assert!(device.get(field).is_some(), "{field} is missing: {device:#}");
        }
        let check = &device["check"];
        assert!(check["error"].as_f64().unwrap() < 1e-3, "{device:#}");
        assert!(check["gflops"].as_f64().unwrap() > 0.0, "{device:#}");
    }
    let taken = listed.iter().find(|device| device["name"] == report["auto"]["name"]).unwrap();
    assert_ne!(taken["type"], "software", "auto took a software adapter");
}

/// Without Vulkan and OpenGL drivers, only the processor is listed, and `auto` takes it.
#[cfg(all(target_os = "linux", not(feature = "cuda")))]
#[test]
fn a_machine_without_any_driver_still_has_the_processor() {
    let mut command = devices(&["--json"]);
    for variable in ["VK_ICD_FILENAMES", "VK_DRIVER_FILES", "__EGL_VENDOR_LIBRARY_FILENAMES"] {
        command.env(variable, "/nonexistent");
    }
    let report: Value = serde_json::from_str(&done(&mut command)).unwrap();
    assert_eq!(report["devices"].as_array().unwrap().len(), 1, "{report:#}");
    assert_eq!(report["auto"]["name"], "cpu");
    assert_eq!(report["auto"]["why"], "no GPU");
}
