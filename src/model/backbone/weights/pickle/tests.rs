//! Tests of the machine with hand-written pickles.

use super::{Pickle, PickleError, Value};

fn error(bytes: &[u8]) -> String {
    match Pickle::read(bytes).expect_err("an error") {
        PickleError::Malformed(what) => what,
        PickleError::Refused(name) => format!("refused {name}"),
    }
}

#[test]
fn integers_of_every_form() {
    for (bytes, n) in [
        (&b"K\xff."[..], 255),
        (b"M\x01\x02.", 513),
        (b"J\xff\xff\xff\xff.", -1),
        (b"\x8a\x00.", 0),
        (b"\x8a\x01\xff.", -1),
        (b"\x8a\x02\xff\x00.", 255),
        (b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", i64::MIN),
        (b"\x8b\x01\x00\x00\x00\x07.", 7),
    ] {
        assert_eq!(*Pickle::read(bytes).unwrap().root(), Value::Int(n), "{bytes:x?}");
    }
    assert_eq!(
        *Pickle::read(b"\x8a\x09\0\0\0\0\0\0\0\0\x01.").unwrap().root(),
        Value::Long(b"\0\0\0\0\0\0\0\0\x01")
    );
}

#[test]
fn of_a_key_given_twice_the_last_value_counts() {
    // pickle.loads of it: {'a': 2, 'b': 3}.
    let twice = b"\x80\x02}(X\x01\0\0\0aK\x01X\x01\0\0\0aK\x02X\x01\0\0\0bK\x03u.";
    let pickle = Pickle::read(twice).unwrap();
    assert_eq!(pickle.entry(pickle.root(), "a"), Some(&Value::Int(2)));
    assert_eq!(pickle.entry(pickle.root(), "b"), Some(&Value::Int(3)));
}

#[test]
fn foreign_names_are_refused_however_they_are_written() {
    assert_eq!(error(b"cos\nsystem\n."), "refused os.system");
    assert_eq!(error(b"\x8c\x02os\x8c\x06system\x93."), "refused os.system");
    assert_eq!(error(b"(ios\nsystem\n."), "refused os.system");
    assert_eq!(error(b"c__builtin__\neval\n."), "refused __builtin__.eval");
    assert_eq!(error(b"ctorch\nload\n."), "refused torch.load");
    assert_eq!(
        error(b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n."),
        "refused torch._utils._rebuild_tensor_v2.__globals__"
    );
    assert_eq!(error(b"c\xff\x1b[2J\nx\n."), "refused \u{fffd}\\u{1b}[2J.x");
}

#[test]
fn huge_lengths_are_refused() {
    for op in [b'X', b'T', b'B'] {
        assert!(error(&[&[op][..], &[0xff; 4], b"."].concat()).contains("4294967295 bytes expected"));
    }
    for op in [0x8d, 0x8e] {
        assert!(error(&[&[op][..], &(1_u64 << 60).to_le_bytes(), b"."].concat()).contains("bytes expected"));
    }
    assert!(error(b"\x8b\xff\xff\xff\xff.").contains("bytes expected"));
    assert!(error(b"\x8a\xff.").contains("bytes expected"));
    assert!(error(&[b'c'; 5000]).contains("does not end"));
}

#[test]
fn cycles_depth_and_sharing_are_bounded() {
    // A list that holds itself.
    assert!(matches!(Pickle::read(b"]q\x00h\x00a.").unwrap().root(), Value::List(items) if items == &[0]));
    // A tuple in a tuple, a million deep; and the same dict from the memo a million times.
    let deep = [&b")"[..], &[0x85; 1_000_000], b"."].concat();
    assert!(matches!(Pickle::read(&deep).unwrap().root(), Value::Tuple(items) if items.len() == 1));
    let shared = [&b"]q\x00("[..], &b"h\x00".repeat(900_000), b"e."].concat();
    assert!(matches!(Pickle::read(&shared).unwrap().root(), Value::List(items) if items.len() == 900_000));
    assert!(error(&vec![b'('; 3_000_000]).contains("steps"));
    // The same long list made a dict over and over: items are paid for, not only opcodes.
    let pairs = [&b"]("[..], &b"NN\x86".repeat(10_000), b"e\x85q\x00"].concat();
    let many = [&pairs, &b"ccollections\nOrderedDict\nh\x00R".repeat(1000)[..], b"."].concat();
    assert!(error(&many).contains("too long") || error(&many).contains("steps"));
}

#[test]
fn unbalanced_stacks_are_malformed() {
    for bytes in [
        &b"."[..],
        b"",
        b"a.",
        b"(0.",
        b"N(0.",
        b"N(\x85.",
        b"t.",
        b"1.",
        b"h\x05.",
        b"Nq",
        b"R.",
        b")R.",
        b"N)R.",
        b"}(Nu.",
        b"Nb.",
        b"Q.",
        b"NQ.",
        b"ccollections\nOrderedDict\nNR.",
        b"\x80\x09N.",
        b"\xff.",
    ] {
        error(bytes);
    }
}
