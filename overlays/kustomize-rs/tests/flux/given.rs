//! Sources that people wrote, compared with the Go library.

use crate::case::{self, Case};

#[test]
fn cases_of_a_file_build_as_in_flux() {
    let Some(file) = std::env::var_os("STEPGATE_FLUX_CASES") else {
        return skip::on_demand("on demand: STEPGATE_FLUX_CASES names a file with a case a line");
    };
    let Some(program) = case::program() else { return };
    let text = std::fs::read_to_string(file).unwrap();
    let cases: Vec<Case> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    case::compare(&program, &cases, "cases of the file");
}
