//! What a stage changes, object by object and field by field, for people: the names of all that changes, and values where they are known to be
//! no secrets.

use overlays::RenderedTree;

use planning::difference::{Change, FieldDifference, ObjectDifference, compare, is_manifest, objects, redacted};

/// The most fields of one object that are told.
const FIELDS: usize = 12;

/// The longest name of an object or field that is told, in characters.
const LONGEST: usize = 160;

/// An entry for each object that differs: a line, and one for each of its fields below it. What cannot be compared is told as files.
pub fn changed(before: &RenderedTree, after: &RenderedTree) -> Vec<String> {
    let differs: Vec<String> = before.diff(after).files.into_keys().map(|path| path.to_string()).collect();
    let side = |tree: &RenderedTree| {
        let file = |path: &String| Some((path.clone(), tree.get(path)?.to_vec()));
        objects(differs.iter().filter(|path| is_manifest(path) && !is_kustomization(path)).filter_map(file))
    };
    let (Ok(old), Ok(new)) = (side(before), side(after)) else {
        // Why stands in `stepgate check`; an error's text may repeat what is in the file.
        return differs
            .iter()
            .map(|path| format!("changed file `{}`: it cannot be read as objects", plain(path)))
            .collect();
    };
    let others = differs.iter().filter(|path| !is_manifest(path)).map(|path| format!("changed file `{}`", plain(path)));
    compare(&old, &new).iter().map(entry).chain(others).collect()
}

/// What `kustomize` reads itself holds no objects.
fn is_kustomization(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    kustomize_rs::FILE_NAMES.contains(&name)
}

fn entry(difference: &ObjectDifference<'_>) -> String {
    let object = difference.object;
    let (namespace, name) = (object.namespace(), object.name());
    let place = if namespace.is_empty() { String::new() } else { format!("{}/", plain(&namespace)) };
    let what = format!("{} {} `{place}{}`", word(difference.change), plain(&object.gvk().kind), plain(&name));
    let shown = difference.fields.iter().take(FIELDS).map(line);
    let more = difference.fields.len().saturating_sub(FIELDS);
    let more = (more > 0).then(|| format!("\n  - and {more} more fields"));
    std::iter::once(what).chain(shown).chain(more).collect()
}

fn line(field: &FieldDifference<'_>) -> String {
    let (old, new) = (redacted(field, field.old), redacted(field, field.new));
    let what = match (field.change, old, new) {
        (Change::Modified, Some(old), Some(new)) => format!("`{old}` → `{new}`"),
        (Change::Added, _, Some(new)) => format!("added, `{new}`"),
        (Change::Removed, Some(old), _) => format!("removed, was `{old}`"),
        (change, ..) => word(change).to_owned(),
    };
    format!("\n  - `{}`: {what}", plain(&field.path))
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Modified => "changed",
        Change::Reordered => "in another order",
    }
}

/// A name as part of a line, inside of a span of code or not: nothing in it is markup.
pub fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() || "`<>|".contains(c) { '?' } else { c }).collect();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use planning::path;

    fn tree(files: &[(&str, &str)]) -> RenderedTree {
        let file = |(name, text): &(&str, &str)| (path(name).unwrap(), Arc::from(text.as_bytes()));
        RenderedTree { files: files.iter().map(file).collect() }
    }

    fn deployment(name: &str, image: &str, secret: &str) -> String {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: n}}\nspec: {{image: '{image}', token: {secret}}}\n"
        )
    }

    #[test]
    fn objects_are_told_with_their_fields_and_no_secrets() {
        let before = tree(&[("a/same.yaml", "same"), ("a/x.yaml", &deployment("x", "r/x:1", "one"))]);
        let objects = format!("{}---\n{}", deployment("x", "r/x:2", "two"), deployment("y", "r/y:2", "two"));
        let after =
            tree(&[("a/same.yaml", "same"), ("a/x.yaml", &objects), ("a/kustomization.yaml", "resources: [x.yaml]")]);
        assert_eq!(
            changed(&before, &after),
            [
                "changed Deployment `n/x`\n  - `spec.image`: `r/x:1` → `r/x:2`\n  - `spec.token`: changed",
                "added Deployment `n/y`"
            ]
        );
        assert_eq!(changed(&after, &before).last().unwrap(), "removed Deployment `n/y`");
        assert_eq!(changed(&before, &before), [""; 0]);
    }

    #[test]
    fn many_fields_are_counted_and_what_is_no_object_is_a_file() {
        let many = |value: u8| {
            let fields: String = (0..40).map(|number| format!("f{number}: {value}, ")).collect();
            format!("apiVersion: v1\nkind: X\nmetadata: {{name: x}}\nspec: {{{fields}}}\n")
        };
        let entry = changed(&tree(&[("x.yaml", &many(1))]), &tree(&[("x.yaml", &many(2))])).remove(0);
        assert!(entry.ends_with("\n  - and 28 more fields") && entry.lines().count() == FIELDS + 2, "{entry}");
        let broken = changed(&tree(&[("x.yaml", "SECRET")]), &tree(&[("x.yaml", "a: [")]));
        assert_eq!(broken, ["changed file `x.yaml`: it cannot be read as objects"]);
    }

    #[test]
    fn names_are_no_markup() {
        let hostile = "apiVersion: v1\nkind: \"X\\n<!-- stepgate:shown\"\nmetadata: {name: \"`a`|<b>\"}\n";
        let entry = changed(&tree(&[]), &tree(&[("x.yaml", hostile)])).remove(0);
        assert_eq!(entry, "added X??!-- stepgate:shown `?a???b?`");
    }
}
