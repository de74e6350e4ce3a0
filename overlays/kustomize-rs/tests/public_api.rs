//! The public API of this crate and of yaml, as snapshots: whoever changes it sees so, and the review does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::{ImplItem, Item, Signature, UseTree, Visibility};

/// All that other crates can name, without bodies, comments and private fields. Items are found by the names that `pub use`
/// of the root and of public modules hand out.
fn public_api(source: &Path) -> String {
    let mut names = BTreeSet::new();
    handed_out(&source.join("lib.rs"), &mut names);
    let mut files = Vec::new();
    rust_files(source, &mut files);
    files.sort();
    let mut out = String::new();
    for file in files {
        let parsed = syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let items: Vec<Item> = parsed.items.into_iter().filter_map(|item| public(item, &names)).collect();
        if !items.is_empty() {
            let parsed = syn::File { shebang: None, attrs: Vec::new(), items };
            out.push_str(&prettyplease::unparse(&parsed));
        }
    }
    out
}

/// The names that a module makes public, by `pub use`, by defining them, and by its public modules.
fn handed_out(file: &Path, names: &mut BTreeSet<String>) {
    let module = match file.file_name().and_then(|name| name.to_str()) {
        Some("lib.rs" | "mod.rs") => file.parent().unwrap().to_owned(),
        _ => file.with_extension(""),
    };
    for item in syn::parse_file(&std::fs::read_to_string(file).unwrap()).unwrap().items {
        match item {
            Item::Use(used) if is_public(&used.vis) => leaves(&used.tree, names),
            Item::Mod(inner) if is_public(&inner.vis) => {
                let single = module.join(format!("{}.rs", inner.ident));
                let file = if single.exists() { single } else { module.join(inner.ident.to_string()).join("mod.rs") };
                handed_out(&file, names);
            }
            item => names.extend(name(&item)),
        }
    }
}

fn leaves(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, names),
        UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, names)),
        UseTree::Rename(_) | UseTree::Glob(_) => panic!("a name is handed out that this test does not follow"),
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The name of a public item.
fn name(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Const(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// What is public of an item, if anything is.
fn public(item: Item, names: &BTreeSet<String>) -> Option<Item> {
    let of_type = |ty: &syn::Type| match ty {
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| names.contains(&last.ident.to_string())),
        _ => false,
    };
    if let Item::Impl(mut block) = item {
        if !of_type(&block.self_ty) {
            return None;
        }
        block.attrs.clear();
        if block.trait_.is_some() {
            block.items.clear();
            return Some(Item::Impl(block));
        }
        block.items = block.items.into_iter().filter_map(method).collect();
        return (!block.items.is_empty()).then_some(Item::Impl(block));
    }
    if !names.contains(&name(&item)?) {
        return None;
    }
    Some(match item {
        Item::Fn(mut item) => {
            item.attrs.clear();
            item.block.stmts.clear();
            Item::Fn(item)
        }
        Item::Struct(mut item) => {
            item.attrs.retain(|attribute| attribute.path().is_ident("derive"));
            if let syn::Fields::Named(fields) = &mut item.fields {
                let all = std::mem::take(&mut fields.named);
                fields.named = all.into_iter().filter(|field| is_public(&field.vis)).collect();
                fields.named.iter_mut().for_each(|field| field.attrs.clear());
            } else if item.fields.iter().any(|field| !is_public(&field.vis)) {
                item.fields = syn::Fields::Unit;
            }
            Item::Struct(item)
        }
        Item::Enum(mut item) => {
            item.attrs.retain(|attribute| attribute.path().is_ident("derive"));
            for variant in &mut item.variants {
                variant.attrs.clear();
                variant.fields.iter_mut().for_each(|field| field.attrs.clear());
            }
            Item::Enum(item)
        }
        Item::Trait(mut item) => {
            item.attrs.clear();
            for inner in &mut item.items {
                if let syn::TraitItem::Fn(method) = inner {
                    method.attrs.clear();
                    if let Some(block) = &mut method.default {
                        block.stmts.clear();
                    }
                }
            }
            Item::Trait(item)
        }
        Item::Const(mut item) => {
            item.attrs.clear();
            Item::Const(item)
        }
        other => other,
    })
}

fn method(item: ImplItem) -> Option<ImplItem> {
    match item {
        ImplItem::Fn(mut method) if is_public(&method.vis) => {
            method.attrs.clear();
            method.block.stmts.clear();
            forget_mut(&mut method.sig);
            Some(ImplItem::Fn(method))
        }
        ImplItem::Const(mut constant) if is_public(&constant.vis) => {
            constant.attrs.clear();
            Some(ImplItem::Const(constant))
        }
        _ => None,
    }
}

/// `mut` of an argument is no part of the API.
fn forget_mut(signature: &mut Signature) {
    for argument in &mut signature.inputs {
        match argument {
            syn::FnArg::Receiver(receiver) if receiver.reference.is_none() => receiver.mutability = None,
            syn::FnArg::Typed(typed) => {
                if let syn::Pat::Ident(name) = &mut *typed.pat {
                    name.mutability = None;
                }
            }
            syn::FnArg::Receiver(_) => {}
        }
    }
}

fn rust_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            files.push(path);
        }
    }
}

#[test]
fn public_api_of_kustomize_rs_is_the_one_reviewed() {
    insta::assert_snapshot!(public_api(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
}

#[test]
fn public_api_of_yaml_is_the_one_reviewed() {
    insta::assert_snapshot!(public_api(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/yaml/src")));
}
