//! Figures as PDF, read back: words are text in the embedded typeface, the size is right, there is no date, and bytes are reproducible.

use std::collections::HashMap;
use std::io::Read as _;

use flate2::read::ZlibDecoder;
use ssmprobe::viz::draw::scene::Scene;
use ssmprobe::viz::export;

use super::marks::Marks;
use super::{golden, looks};
use crate::close::assert_close;

/// The decompressed contents of a file's compressed streams.
fn streams(pdf: &[u8]) -> Vec<Vec<u8>> {
    let begins = b"stream\n";
    let at = |k: &usize| pdf[*k..].starts_with(begins) && !pdf[..*k].ends_with(b"end");
    let inflated = |k: usize| {
        let mut out = Vec::new();
        ZlibDecoder::new(&pdf[k + begins.len()..]).read_to_end(&mut out).ok().map(|_| out)
    };
    (0..pdf.len()).filter(at).filter_map(inflated).collect()
}

/// The text of glyphs by the lines `<0001> <0046>` of a ToUnicode table: number of the glyph, UTF-16.
fn meanings(table: &str) -> HashMap<u16, String> {
    let number =
        |digits: &[u8]| u16::from_str_radix(str::from_utf8(digits).expect("text"), 16).expect("hexadecimal");
    let of = |line: &str| {
        let (glyph, letters) = line.strip_prefix('<')?.strip_suffix('>')?.split_once("> <")?;
        let letters: Vec<u16> = letters.as_bytes().chunks(4).map(number).collect();
        Some((number(glyph.as_bytes()), String::from_utf16(&letters).expect("letters")))
    };
    let list = table.split_once("beginbfchar").expect("a list").1;
    list.lines().filter_map(of).collect()
}

/// The numbers of the glyphs that a page shows, in order.
fn glyphs(page: &[u8]) -> Vec<u16> {
    let mut bytes = Vec::new();
    let mut rest = page.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'(' {
            continue;
        }
        loop {
            match rest.next().expect("a string ends") {
                b')' => break,
                b'\\' => bytes.push(match rest.next().expect("what is escaped") {
                    first @ b'0'..=b'7' => {
                        let mut value = u32::from(first - b'0');
                        for _ in 0..2 {
                            let Some(next) = rest.next_if(|b| (b'0'..=b'7').contains(b)) else { break };
                            value = value * 8 + u32::from(next - b'0');
                        }
                        value as u8
                    }
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    other => other,
                }),
                plain => bytes.push(plain),
            }
        }
    }
    bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair)).collect()
}

/// Exports `scene` as PDF, reads it back, and asserts that it is right.
fn read_back(name: &str, scene: &Scene, marks: &Marks) {
    let pdf = export::pdf(scene, "a probe & an image").expect("a PDF");
    assert_eq!(pdf, export::pdf(scene, "a probe & an image").expect("a PDF"), "{name}: other bytes");
    let text = String::from_utf8_lossy(&pdf);
    assert!(text.starts_with("%PDF-") && text.trim_end().ends_with("%%EOF"), "{name}");
    for date in ["CreationDate", "ModDate", "CreateDate", "ModifyDate"] {
        assert!(!text.contains(date), "{name}: {date}");
    }
    assert!(text.contains(concat!("/Creator(SSMProbe ", env!("CARGO_PKG_VERSION"))), "{name}: who made it");
    let page = text.split_once("/MediaBox[").and_then(|(_, rest)| rest.split_once(']')).expect("a page").0;
    let page: Vec<f32> = page.split(' ').map(|v| v.parse().expect("points")).collect();
    assert_close(name, page, [0.0, 0.0, scene.width, scene.height], 0.02);

    let expected: String = marks.words().iter().flat_map(|word| word.text.split_whitespace()).collect();
    let fonts = text.matches("/Type/FontDescriptor").count();
    assert_eq!(fonts, usize::from(!expected.is_empty()), "{name}: typefaces");
    assert_eq!(text.matches("/FontFile2 ").count(), fonts, "{name}: a typeface that is not embedded");
    assert!(fonts == 0 || text.contains("+Ubuntu-Light/"), "{name}: another typeface");
    let streams = streams(&pdf);
    let table = streams.iter().filter_map(|s| str::from_utf8(s).ok()).find(|s| s.contains("begincmap"));
    let meanings = table.map(meanings).unwrap_or_default();
    let shown = |stream: &&Vec<u8>| stream.windows(2).any(|w| w == b"Tj");
    let found: String =
        streams.iter().filter(shown).flat_map(|page| glyphs(page)).map(|glyph| &*meanings[&glyph]).collect();
    assert_eq!(found.split_whitespace().collect::<String>(), expected, "{name}");
}

#[test]
fn a_pdf_holds_the_words_of_its_figure_in_its_own_typeface() {
    for theme in looks() {
        for (name, scene) in golden::all(&theme) {
            read_back(&name, &scene, &Marks::of(&scene, &theme));
        }
    }
}
