//! Random templates, compared with the Go library.

use serde_json::{Map, Value, json};

use crate::case::{self, Case};
use crate::random::{Chance, amount};

const NAMES: [&str; 8] = ["a", "b", "empty", "long", "path", "missing", "_x1", "é"];
const VALUES: [&str; 17] = [
    "",
    "x",
    "abc",
    "Abc",
    "ABCabc",
    "a/b/c",
    "aaa",
    "héllo",
    "ßtraße",
    "ἈΙᾳ",
    "İi",
    "1.2.3",
    "foo.tar.gz",
    "*a?",
    "日本語",
    "a b",
    "}{$",
];
/// What stands in arguments and between expressions.
const PIECES: [&str; 58] = [
    "a", "b", "c", "x", "-", "=", ":", "/", "//", "#", "%", "?", "*", "[a-c]", "[^a]", "[", "]", "\\", "\\/", "\\\\",
    "$", "$$", "${", "}", "{", "1", "2", "-1", " ", ".", "é", "日", "\n", ":=", ":-", "^", ",", "+", "_", "0", "3:",
    "\"", "'", "$${a}", "$a", "a/b", "a*", "*.", ".*", "??", "9", "-2", "10", "x/", "l", "o", "ab", "A",
];
const OPERATORS: [&str; 40] = [
    "", "", "", "", ":=", ":=", "=", ":-", ":-", ":?", ":+", "-", "#", "##", "%", "%%", "//", "/", "+", "?", "^", "^^",
    ",", ",,", "^,", ":", ":", ":", "#", "##", "%", "%%", "/", "//", "/#", "/%", "###", "!", ".", " ",
];

fn pieces(chance: &mut Chance, most: usize) -> String {
    (0..chance.below(most + 1)).map(|_| chance.pick(&PIECES)).collect()
}

fn argument(chance: &mut Chance, depth: usize) -> String {
    match chance.below(8) {
        0 if depth > 0 => expression(chance, depth - 1),
        1 if depth > 0 => pieces(chance, 2) + &expression(chance, depth - 1) + &pieces(chance, 1),
        2 | 3 => chance.pick(&["a", "b*", "*.", "/", "?", "[a-c]*", "o w", "foo", "A", "é", "日"]).to_owned(),
        4 => chance.pick(&["1", "0", "-1", "2", "-3", "100", "-100", "x", "+1", "01"]).to_owned(),
        _ => pieces(chance, 3),
    }
}

fn expression(chance: &mut Chance, depth: usize) -> String {
    let name = chance.pick(&NAMES);
    if chance.one_in(12) {
        return format!("${{#{name}}}");
    }
    let operator = chance.pick(&OPERATORS);
    let mut text = format!("${{{name}{operator}");
    if !operator.is_empty() && !chance.one_in(8) {
        text += &argument(chance, depth);
    }
    if operator.starts_with('/') && !chance.one_in(6) || operator == ":" && chance.one_in(2) {
        text += if operator == ":" { ":" } else { "/" };
        text += &argument(chance, depth);
    }
    if !chance.one_in(25) {
        text.push('}');
    }
    text
}

fn template(chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..=chance.below(3) {
        if chance.one_in(2) {
            text += &pieces(chance, 2);
        }
        text += &expression(chance, 2);
    }
    text + &pieces(chance, 1)
}

fn random_case(seed: u64) -> Case {
    let chance = &mut Chance::new(seed);
    let template = template(chance);
    let mut variables = Map::new();
    for name in NAMES.iter().filter(|name| **name != "missing") {
        let value = if *name == "empty" { "" } else { chance.pick(&VALUES) };
        variables.insert((*name).to_owned(), Value::from(value));
    }
    json!({"template": template, "variables": variables, "strict": chance.one_in(6), "seed": seed})
}

#[test]
fn random_templates_expand_as_in_flux() {
    let Some(program) = case::program() else { return };
    let (count, seed) = amount();
    let cases: Vec<Case> = (0..count * 10).map(|number| random_case(seed + number)).collect();
    case::compare(&program, &cases, "templates");
}
