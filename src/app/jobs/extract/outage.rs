//! A disk that does not answer. An image that cannot be read is left out, for good where its tokens are cached; one whose disk is
//! gone is no fault of the dataset, which would be left out to its end.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::ExtractError;
use super::flow::Image;
use crate::model::data::ImageSource;
use crate::model::data::image::ImageError;
use crate::model::io::atomic_file;

/// So many images in a row whose files cannot be read are an outage.
const MIN_OUTAGE: usize = 16;
/// How long an image whose file could be read before is waited for: a network disk may not answer for a moment.
pub(in crate::app::jobs) const PATIENCE: Duration = Duration::from_mins(1);
/// Time between two attempts to read it.
pub(in crate::app::jobs) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The images of a dataset in the folder `root` that could not be read because of their disk, since the last one that could be.
pub(super) struct Outage<'a> {
    root: &'a Path,
    pub images: usize,
}

/// The system's error because of which an image cannot be read; `None` if that is not why.
pub(in crate::app::jobs) fn of_disk(image: &ImageSource, error: &ImageError) -> Option<ErrorKind> {
    match error {
        ImageError::Read { source, .. } => Some(source.kind()),
        // The Parquet reader returns only a message, so the file itself is read again to find out.
        ImageError::Row { .. } => atomic_file::start(&image.path, 1).err().map(|error| error.kind()),
        _ => None,
    }
}

impl<'a> Outage<'a> {
    /// None so far.
    pub fn new(root: &'a Path) -> Self {
        Self { root, images: 0 }
    }

    /// Adds images in their order; an error once [`MIN_OUTAGE`] in a row are an outage.
    pub fn add(&mut self, images: &[Image]) -> Result<(), ExtractError> {
        for (prepared, digest) in images {
            let is_disk = match digest {
                Ok(_) | Err(None) => false,
                // A table may list what is not there. The root of one in the current folder is the empty path.
                Err(Some(ErrorKind::NotFound)) => !Path::new(".").join(self.root).exists(),
                Err(Some(_)) => true,
            };
            self.images = if is_disk { self.images + 1 } else { 0 };
            if let Err(why) = prepared
                && self.images == MIN_OUTAGE
            {
                return Err(ExtractError::Outage { images: MIN_OUTAGE, why: why.clone() });
            }
        }
        Ok(())
    }
}

/// Waits for a disk that does not answer, on all threads that read images together; when its silence began.
#[derive(Default)]
pub(super) struct Patience(Mutex<Option<Instant>>);

impl Patience {
    /// Returns once the file of an image can be read, its disk is not why it cannot, or none could be read for [`PATIENCE`].
    pub fn wait_for(&self, image: &ImageSource) {
        while image.bytes().err().and_then(|error| of_disk(image, &error)).is_some() {
            let mut silent_since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if silent_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return;
            }
            drop(silent_since);
            sleep(RETRY_INTERVAL);
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_answers_again_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("a.png");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sleep(Duration::from_millis(50));
                atomic_file::write(&image, b"a picture").unwrap();
            });
            Patience::default().wait_for(&image.clone().into());
        });
        assert!(image.exists());
        // Nobody waits any longer once nothing could be read for so long.
        let begun = Instant::now();
        let long_ago = begun.checked_sub(2 * PATIENCE);
        Patience(Mutex::new(long_ago)).wait_for(&folder.path().join("b.png").into());
        assert!(begun.elapsed() < PATIENCE);
    }

    #[test]
    fn many_in_a_row_are_an_outage_and_images_that_were_never_there_are_not() {
        let (gone, there) = (Path::new("/not-there"), std::env::temp_dir());
        let unread = |error, count| vec![(Err("it cannot be read".to_owned()), Err(Some(error))); count];
        for error in [ErrorKind::NotFound, ErrorKind::StaleNetworkFileHandle, ErrorKind::PermissionDenied] {
            let mut outage = Outage::new(gone);
            outage.add(&unread(error, MIN_OUTAGE - 1)).unwrap();
            let refused = outage.add(&unread(error, 1)).unwrap_err().to_string();
            assert!(
                refused.starts_with("16 images in a row") && refused.contains("it cannot be read"),
                "{refused}"
            );
            // A broken image was still read, so those before it no longer count.
            let read = [(Err("no picture".into()), Ok("digest".into()))];
            outage.add(&read).unwrap();
            outage.add(&unread(error, MIN_OUTAGE - 1)).unwrap();
            // It is an outage even if the disk answers again before the batch ends.
            outage.add(&[unread(error, 1), read.into()].concat()).unwrap_err();
        }
        for root in [&*there, Path::new("")] {
            Outage::new(root).add(&unread(ErrorKind::NotFound, 99)).unwrap();
        }
    }

    #[test]
    fn a_row_of_a_file_that_cannot_be_read_is_of_its_disk() {
        let row = ImageSource { path: "/not-there/a.parquet".into(), row: Some(0) };
        assert_eq!(of_disk(&row, &row.bytes().unwrap_err()), Some(ErrorKind::NotFound));
        let file = tempfile::NamedTempFile::new().unwrap();
        let row = ImageSource { path: file.path().into(), row: Some(0) };
        assert_eq!(of_disk(&row, &row.bytes().unwrap_err()), None);
    }
}
