//! The ledger of a cluster: whoever writes the deploy branch writes it.

use fuzz::fuzz;

use crate::directory::DeployedLedger;

/// The ledgers that are kept as JSON, whose values are changed one by one.
fn as_json() -> Vec<Vec<u8>> {
    let kept = fuzz::files_below(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz/ledger"));
    let value = |text: &Vec<u8>| serde_yaml::from_slice::<serde_json::Value>(text).unwrap().to_string().into_bytes();
    kept.values().map(value).collect()
}

#[test]
fn fuzzed_ledgers_are_written_as_they_are_read() {
    fuzz("ledger", as_json(), |input| {
        let ledger = match DeployedLedger::of(input) {
            DeployedLedger::Read(ledger) => ledger,
            DeployedLedger::Unreadable(reason) if reason.is_empty() => {
                return Err("unreadable for no reason".to_owned());
            }
            _ => return Ok(()),
        };
        let written = serde_yaml::to_string(&*ledger).map_err(|error| format!("it cannot be written: {error}"))?;
        match DeployedLedger::of(written.as_bytes()) {
            DeployedLedger::Read(again) if again == ledger => Ok(()),
            other => Err(format!("{other:?} is read of\n{written}")),
        }
    });
}
