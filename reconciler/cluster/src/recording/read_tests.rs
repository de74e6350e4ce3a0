use std::path::PathBuf;

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings").join(name)
}

fn read(name: &str) -> Result<Vec<Sample>, RecordingError> {
    Samples::open(&fixture(name))?.collect()
}

#[test]
fn a_compressed_recording_reads_as_the_plain_one() {
    let plain = read("upgrade.jsonl").unwrap();
    assert_eq!(plain.len(), 16);
    assert_eq!(read("upgrade.jsonl.xz").unwrap(), plain);
}

#[test]
fn damaged_recordings_name_the_file_the_line_and_what_to_do() {
    for (name, expected) in [
        ("hostile/truncated.jsonl", "truncated.jsonl:3:200 is cut off in the middle of a sample; delete line 3"),
        ("hostile/not-json.jsonl", "not-json.jsonl:2:2 is not a valid sample: expected ident"),
        ("hostile/not-a-sample.jsonl", "not-a-sample.jsonl:1:46 is not a valid sample: missing field `t`"),
        (
            "hostile/wrong-type.jsonl",
            "wrong-type.jsonl:3:19 is not a valid sample: invalid type: string \"none\", expected a sequence",
        ),
        ("hostile/empty.jsonl", "empty.jsonl holds no sample"),
        ("hostile/cut-off.jsonl.xz", "cut-off.jsonl.xz:"),
        ("hostile/corrupt.jsonl.xz", "test it with `xz -t`"),
        ("missing.jsonl", "could not open recording"),
    ] {
        let error = read(name).map(|samples| samples.len()).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn samples_before_the_damage_are_read_and_none_after_it() {
    let mut samples = Samples::open(&fixture("hostile/not-json.jsonl")).unwrap();
    assert!(samples.next().unwrap().is_ok());
    assert!(samples.next().unwrap().is_err());
    assert!(samples.next().is_none());
}

#[test]
fn a_folder_is_no_recording() {
    let error = Samples::open(&fixture("hostile")).and_then(Iterator::collect::<Result<Vec<_>, _>>).unwrap_err();
    assert!(error.to_string().contains("hostile"), "{error}");
}
