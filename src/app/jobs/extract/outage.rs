//! A disk that does not answer. An image that cannot be read is left out, for good where its tokens are cached; one whose disk is
//! gone is not the dataset's fault: without a stop, every image up to the last would be left out.

use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::ExtractError;
use super::flow::Image;
use crate::model::data::ImageSource;
use crate::model::data::image::ImageError;
use crate::model::io::{atomic_file, failpoint, is_of_file};

/// This many images in a row whose files cannot be read are an outage.
const MIN_OUTAGE: usize = 16;
/// How long a disk is waited for: one in a network may not answer for a moment, or be full.
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The images of a dataset in the folder `root` that could not be read because of their disk, since the last one that could be.
pub(super) struct Outage<'a> {
    root: &'a Path,
    pub images: usize,
}

/// The system's error that keeps an image from being read; `None` if the cause is another one.
pub(super) fn of_disk(image: &ImageSource, error: &ImageError) -> Option<ErrorKind> {
    match error {
        ImageError::Read { source, .. } => Some(source.kind()),
        // The Parquet reader returns only a message, so the file itself is read again to find out.
        ImageError::Row { .. } => atomic_file::start(&image.path, 1).err().map(|error| error.kind()),
        _ => None,
    }
}

/// Whether an image that cannot be read may be readable a moment later: its disk is why, and it is not just missing from a folder that
/// can be listed.
pub(in crate::app::jobs) fn is_away(image: &ImageSource, error: &ImageError) -> bool {
    of_disk(image, error).is_some_and(|kind| {
        // The folder of a file in the current one is the empty path.
        let folder = || Path::new(".").join(image.path.parent().unwrap_or(Path::new("")));
        kind != ErrorKind::NotFound || folder().read_dir().is_err()
    })
}

/// Whether an image that its disk does not give may be there a moment later.
pub(super) fn should_retry((_, digest): &Image) -> bool {
    matches!(digest, Err(Some(kind)) if !is_of_file(*kind))
}

/// What `read` makes of images, on all cores. Those that a disk refuses are read once more a moment later, all together: they would be
/// left out for good.
pub(super) fn read_all<T: Sync, U: Send>(
    images: &[T],
    read: impl Fn(&T) -> U + Sync,
    should_retry: impl Fn(&U) -> bool,
) -> Vec<U> {
    let mut all: Vec<U> = images.par_iter().map(&read).collect();
    let refused: Vec<_> = all.iter_mut().zip(images).filter(|(found, _)| should_retry(found)).collect();
    if !refused.is_empty() {
        sleep(RETRY_INTERVAL);
    }
    refused.into_par_iter().for_each(|(found, image)| *found = read(image));
    all
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

/// Pauses before further attempts at what a disk refuses.
#[derive(Default)]
pub(in crate::app) struct Retries(Option<Instant>);

impl Retries {
    /// Whether nobody has waited yet.
    pub fn is_new(&self) -> bool {
        self.0.is_none()
    }

    /// Whether to try again, after a pause of [`RETRY_INTERVAL`]; false once [`RETRY_TIMEOUT`] has passed since the first of these calls.
    pub fn pause(&mut self) -> bool {
        let is_over = self.0.get_or_insert_with(Instant::now).elapsed() > RETRY_TIMEOUT || failpoint::lasts();
        if !is_over {
            sleep(RETRY_INTERVAL);
        }
        !is_over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_disk_is_waited_for_and_not_for_ever() {
        let (begun, mut retries) = (Instant::now(), Retries::default());
        assert!(retries.is_new() && retries.pause() && !retries.is_new());
        assert!(begun.elapsed() >= RETRY_INTERVAL);
        let (begun, mut retries) = (Instant::now(), Retries(begun.checked_sub(2 * RETRY_TIMEOUT)));
        assert!(!retries.pause() && begun.elapsed() < RETRY_INTERVAL);
    }

    #[test]
    fn images_that_their_disk_refuses_once_are_read_after_one_wait_for_all() {
        const IMAGES: usize = 10_000; // a wait for each would take minutes on any number of cores
        let asked: Vec<AtomicUsize> = (0..IMAGES).map(|_| AtomicUsize::new(0)).collect();
        let read = || read_all(&asked, |image| image.fetch_add(1, Relaxed), |before| *before == 0);
        let begun = Instant::now();
        assert!(read() == [1; IMAGES] && (RETRY_INTERVAL..20 * RETRY_INTERVAL).contains(&begun.elapsed()));
        assert!(read() == [2; IMAGES], "none is refused any more");
        for (error, refused) in [(ErrorKind::StaleNetworkFileHandle, true), (ErrorKind::NotFound, false)] {
            assert_eq!(should_retry(&(Err("it cannot be read".to_owned()), Err(Some(error)))), refused);
        }
    }

    #[test]
    fn an_image_whose_folder_is_there_without_it_is_gone_and_its_disk_is_not_away() {
        let folder = tempfile::tempdir().unwrap();
        let is_away = |path: &str| {
            let image = ImageSource::from(folder.path().join(path));
            is_away(&image, &image.bytes().unwrap_err())
        };
        assert!(!is_away("a.png") && is_away("not-there/a.png"));
        let read = |kind: ErrorKind| ImageError::Read { path: "a.png".into(), source: kind.into() };
        let here = ImageSource::from(std::path::PathBuf::from("a.png"));
        assert!(super::is_away(&here, &read(ErrorKind::StaleNetworkFileHandle)));
        assert!(!super::is_away(&here, &read(ErrorKind::NotFound)), "the current folder can be listed");
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
