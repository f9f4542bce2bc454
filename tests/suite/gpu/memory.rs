//! A GPU that runs out of memory, simulated by a failpoint: a real one would have to be filled.

use std::ops::ControlFlow;

use ssmprobe::app::jobs::extract::{Event, ExtractOptions, Line, Messages, Plan, TokenSettings};
use ssmprobe::model::backbone::Backbone;
use ssmprobe::model::data;
use ssmprobe::model::io::catch_panic::catch_foreign;
use ssmprobe::model::io::failpoint;

use crate::backbones::{difference, fixtures, flat, image};
use crate::faults::apart;
use crate::gpus::gpus;
use crate::run::{self, Sandbox};

#[test]
fn without_room_for_a_batch_fewer_images_are_read_at_once() {
    apart("gpu::memory::without_room_for_a_batch_fewer_images_are_read_at_once", || {
        let images: Vec<_> = (0..5).map(|k| image(k, 16, 16)).collect();
        for (name, gpu) in gpus() {
            let backbone = Backbone::open(&fixtures().join("vit"), &gpu).unwrap();
            let expected = backbone.forward(&images).unwrap();
            assert_eq!(backbone.held_at_once(), None, "{name}");
            failpoint::device_room(2);
            let found = backbone.forward(&images).unwrap();
            assert_eq!((found.len(), backbone.held_at_once()), (5, Some(2)), "{name}");
            for (found, expected) in found.iter().zip(&expected) {
                assert!(difference(&flat(found), &flat(expected)) < 1e-5, "{name}");
            }
            failpoint::device_room(0);
            let said = catch_foreign(|| backbone.forward(&images)).unwrap_err();
            assert!(said.contains("out of device memory"), "{said}");
            // Another device error is not retried with a smaller batch.
            failpoint::none();
            failpoint::device(1);
            assert!(catch_foreign(|| backbone.forward(&images)).unwrap_err().contains("the device is lost"));
            failpoint::none();
        }
    });
}

#[test]
fn an_extraction_says_that_memory_ran_out_and_goes_on() {
    apart("gpu::memory::an_extraction_says_that_memory_ran_out_and_goes_on", || {
        let Some((_, gpu)) = gpus().next() else { return };
        let sandbox = Sandbox::new(9, 3);
        let dataset = data::open(sandbox.data()).expect("a dataset");
        let tokens = TokenSettings { cache: Some(sandbox.path("cache")), ..TokenSettings::default() };
        let plan = Plan::new(ExtractOptions::new(run::backbone(), tokens), &dataset).expect("a plan");
        failpoint::device_room(3);
        let (mut said, mut words) = (Vec::new(), Messages::default());
        let taken = plan.run(&dataset, &gpu, &mut |event| {
            if let (Event::OutOfMemory { .. }, Some(Line::Note(line))) =
                (&event, words.line(&event, &dataset))
            {
                said.push(line);
            }
            ControlFlow::Continue(())
        });
        failpoint::none();
        assert_eq!(taken.expect("tokens").len(), 1);
        assert_eq!(said, ["the device ran out of memory; it now takes 3 images at a time"]);
    });
}
