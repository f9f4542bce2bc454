//! A disk that does not answer. An image that cannot be read is left out, for good where its tokens are cached; one whose disk is
//! gone is no fault of the dataset, which would be left out to its end.

use std::io::ErrorKind;
use std::path::Path;

use super::ExtractError;
use super::flow::Image;

/// So many images in a row whose files cannot be read are an outage.
const LEAST: usize = 16;

/// The images of a dataset in the folder `root` that could not be read because of their disk, since the last one that could be.
pub(super) struct Outage<'a> {
    root: &'a Path,
    images: usize,
}

impl<'a> Outage<'a> {
    /// None so far.
    pub fn new(root: &'a Path) -> Self {
        Self { root, images: 0 }
    }

    /// Adds images in their order; an error if the last ones are an outage.
    pub fn add(&mut self, images: &[Image]) -> Result<(), ExtractError> {
        for (_, digest) in images {
            let is_disk = match digest {
                Ok(_) | Err(None) => false,
                Err(Some(ErrorKind::NotFound)) => !self.root.exists(), // a table may list what is not there
                Err(Some(_)) => true,
            };
            self.images = if is_disk { self.images + 1 } else { 0 };
        }
        match images.last() {
            Some((Err(why), _)) if self.images >= LEAST => {
                Err(ExtractError::Outage { images: self.images, why: why.clone() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_in_a_row_are_an_outage_and_images_that_were_never_there_are_not() {
        let (gone, there) = (Path::new("/not-there"), std::env::temp_dir());
        let unread = |error, count| vec![(Err("it cannot be read".to_owned()), Err(Some(error))); count];
        for error in [ErrorKind::NotFound, ErrorKind::StaleNetworkFileHandle, ErrorKind::PermissionDenied] {
            let mut outage = Outage::new(gone);
            outage.add(&unread(error, LEAST - 1)).unwrap();
            let refused = outage.add(&unread(error, 1)).unwrap_err().to_string();
            assert!(
                refused.starts_with("16 images in a row") && refused.contains("it cannot be read"),
                "{refused}"
            );
            // One that is broken was read, and those before it do not count.
            outage.add(&[(Err("no picture".into()), Ok("digest".into()))]).unwrap();
            outage.add(&unread(error, LEAST - 1)).unwrap();
        }
        Outage::new(&there).add(&unread(ErrorKind::NotFound, 99)).unwrap();
    }
}
