//! The modules of a crate, and the references between them.
//!
//! The reader follows `mod` declarations from the root file, and skips tests. It records the items,
//! imports and paths of each module. `Modules::references` then resolves each path to the module
//! that defines its target, through imports and re-exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tokens::{Token, tokens};

/// The path of a module, such as `["crate", "a", "b"]`.
pub(super) type ModulePath = Vec<String>;

/// The maximum number of imports that one path is followed through. It ends cyclic imports.
const DEEPEST: usize = 16;

#[derive(Debug, Default)]
struct Module {
    /// Names of the functions, types and other items that the module defines.
    items: BTreeSet<String>,
    /// Imported paths, with their names in the module.
    imports: Vec<(String, Vec<String>)>,
    /// Paths of glob imports, such as `a::*`.
    globs: Vec<Vec<String>>,
    /// Paths in code, such as `a::b::f`.
    mentions: Vec<Vec<String>>,
    /// Tuples that a statement takes apart at once, as in `let (a, b) = (x, y)`.
    unpacked: usize,
}

/// The modules of one crate, without its tests.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    /// Reads the crate with the root file `root`.
    pub(super) fn read(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.read_file(vec!["crate".to_owned()], root);
        modules
    }

    /// All pairs of modules in which the first one uses an item of the second.
    pub(super) fn references(&self) -> BTreeSet<(ModulePath, ModulePath)> {
        let mut found = BTreeSet::new();
        for (path, module) in &self.0 {
            let imports = module.imports.iter().map(|(_, named)| named);
            for named in imports.chain(&module.globs).chain(&module.mentions) {
                if let Some(owner) = self.resolve(path, named, DEEPEST)
                    && owner != *path
                {
                    found.insert((path.clone(), owner));
                }
            }
        }
        found
    }

    /// The modules with statements such as `let (a, b) = (x, y)`, and their number.
    pub(super) fn unpacked_tuples(&self) -> impl Iterator<Item = (String, usize)> {
        let found = self.0.iter().filter(|(_, module)| module.unpacked > 0);
        found.map(|(path, module)| (path.join("::"), module.unpacked))
    }

    /// The module that defines the target of the path `named` in the module `at`. `None` for items
    /// of other crates.
    fn resolve(&self, at: &[String], named: &[String], depth: usize) -> Option<ModulePath> {
        let (first, rest) = named.split_first()?;
        let depth = depth.checked_sub(1)?;
        let start = match first.as_str() {
            "crate" => at[..1].to_vec(),
            "self" => at.to_vec(),
            "super" => at[..at.len().checked_sub(1).filter(|length| *length > 0)?].to_vec(),
            name => self.find(at, name, depth)?.module()?,
        };
        self.descend(start, rest, depth)
    }

    fn descend(&self, mut at: ModulePath, rest: &[String], depth: usize) -> Option<ModulePath> {
        for name in rest {
            if name == "super" {
                at.pop();
                continue;
            }
            match self.find(&at, name, depth) {
                Some(Found::Module(module)) => at = module,
                Some(Found::ItemOf(module)) => return Some(module),
                // An item that the parser does not see, for example one from a macro.
                None => return Some(at),
            }
        }
        Some(at)
    }

    /// The meaning of `name` in the module `at`: a child, an item, or an import.
    fn find(&self, at: &[String], name: &str, depth: usize) -> Option<Found> {
        let depth = depth.checked_sub(1)?;
        let child = [at, &[name.to_owned()]].concat();
        if self.0.contains_key(&child) {
            return Some(Found::Module(child));
        }
        let module = self.0.get(at)?;
        if module.items.contains(name) {
            return Some(Found::ItemOf(at.to_vec()));
        }
        let follow = |path: &[String]| {
            let target = self.resolve(at, path, depth)?;
            let is_module = path.last().is_some_and(|last| target.last() == Some(last));
            Some(if is_module {
                Found::Module(target)
            } else {
                Found::ItemOf(target)
            })
        };
        if let Some((_, path)) = module
            .imports
            .iter()
            .find(|(alias, path)| alias == name && path.first() != Some(&name.to_owned()))
        {
            return follow(path);
        }
        module.globs.iter().find_map(|path| {
            let from = self.resolve(at, path, depth)?;
            self.find(&from, name, depth)
        })
    }

    fn read_file(&mut self, path: ModulePath, file: &Path) {
        let source = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parent = file.parent().unwrap();
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let folder = if ["mod", "lib", "main"].contains(&stem) {
            parent.to_owned()
        } else {
            parent.join(stem)
        };
        self.read_tokens(path, &tokens(&source), &folder);
    }

    /// Reads the module `path` with the content `tokens`. Its children in other files are in
    /// `folder`.
    fn read_tokens(&mut self, path: ModulePath, tokens: &[Token], folder: &Path) {
        let mut module = Module::default();
        let mut at = 0;
        let mut depth = 0_usize;
        while at < tokens.len() {
            let rest = &tokens[at..];
            at += match rest {
                [Token::Mark('#'), Token::Mark('['), ..] => attribute_length(rest),
                [Token::Mark('{'), ..] => {
                    depth += 1;
                    1
                }
                [Token::Mark('}'), ..] => {
                    depth -= 1;
                    1
                }
                [Token::Name(word), Token::Name(name), after, ..]
                    if word == "mod" && depth == 0 =>
                {
                    let child = [path.clone(), vec![name.clone()]].concat();
                    let inner = folder.join(name);
                    if *after == Token::Mark('{') {
                        let length = block_length(&rest[2..]);
                        self.read_tokens(child, &rest[3..2 + length - 1], &inner);
                        2 + length
                    } else {
                        let files = [folder.join(format!("{name}.rs")), inner.join("mod.rs")];
                        let file = files.iter().find(|file| file.exists());
                        self.read_file(
                            child,
                            file.unwrap_or_else(|| {
                                panic!("no file for module {name} in {}", folder.display())
                            }),
                        );
                        3
                    }
                }
                // `use<S>` in a return type is not an import.
                [Token::Name(word), next, ..] if word == "use" && *next != Token::Mark('<') => {
                    let length = rest
                        .iter()
                        .position(|token| *token == Token::Mark(';'))
                        .unwrap_or(rest.len());
                    let mut tree = &rest[1..length];
                    module.import(&[], &mut tree);
                    length
                }
                [Token::Name(word), Token::Name(name), ..]
                    if depth == 0 && ITEMS.contains(&word.as_str()) =>
                {
                    module.items.insert(name.clone());
                    2
                }
                [Token::Name(word), Token::Mark('!'), Token::Name(name), ..]
                    if word == "macro_rules" =>
                {
                    module.items.insert(name.clone());
                    3
                }
                // A constant may be a tuple: `const PAIR: (u8, u8) = (1, 2)`.
                [Token::Mark('('), ..]
                    if is_tuple_for_tuple(rest)
                        && tokens[..at].last() != Some(&Token::Mark(':')) =>
                {
                    module.unpacked += 1;
                    1
                }
                [Token::Name(first), Token::Separator, ..] => {
                    let mut named = vec![first.clone()];
                    let mut length = 1;
                    while let [Token::Separator, Token::Name(name), ..] = &rest[length..] {
                        named.push(name.clone());
                        length += 2;
                    }
                    module.mentions.push(named);
                    length
                }
                _ => 1,
            };
        }
        self.0.insert(path, module);
    }
}

/// Keywords that come directly before the name of an item.
const ITEMS: [&str; 8] = [
    "fn", "struct", "enum", "union", "trait", "type", "const", "static",
];

/// The meaning of a name.
enum Found {
    Module(ModulePath),
    /// An item that this module defines.
    ItemOf(ModulePath),
}

impl Found {
    fn module(self) -> Option<ModulePath> {
        match self {
            Self::Module(module) | Self::ItemOf(module) => Some(module),
        }
    }
}

impl Module {
    /// Reads a tree of imports: `a::{b, c::*, d as e}`.
    fn import(&mut self, prefix: &[String], tree: &mut &[Token]) {
        let mut path = prefix.to_vec();
        let mut name = None;
        while let Some((token, rest)) = tree.split_first() {
            match token {
                Token::Name(word) if word == "as" => {
                    if let [_, Token::Name(alias), ..] = *tree {
                        name = Some(alias.clone());
                    }
                    *tree = &tree[2..];
                }
                Token::Name(word) => {
                    path.push(word.clone());
                    *tree = rest;
                }
                Token::Separator => *tree = rest,
                Token::Mark('*') => {
                    self.globs.push(std::mem::take(&mut path));
                    *tree = rest;
                }
                Token::Mark('{') => {
                    *tree = rest;
                    while !matches!(tree, [] | [Token::Mark('}'), ..]) {
                        self.import(&path, tree);
                        if let [Token::Mark(','), rest @ ..] = *tree {
                            *tree = rest;
                        }
                    }
                    *tree = tree.get(1..).unwrap_or_default();
                    return;
                }
                Token::Mark(_) => break,
            }
        }
        // `a::{self}` imports `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(last) = path.last() {
            self.imports
                .push((name.unwrap_or_else(|| last.clone()), path));
        }
    }
}

/// The length of an attribute. `#[cfg(test)]` and `#[test]` include the item that they apply to, so
/// that tests are skipped.
fn attribute_length(tokens: &[Token]) -> usize {
    let length = 1 + block_length(&tokens[1..]);
    let words: Vec<&str> = names(&tokens[..length]).collect();
    let is_for_tests = matches!(words[..], ["test", ..])
        || words.first() == Some(&"cfg") && words.contains(&"test");
    if !is_for_tests || words.contains(&"not") || words.contains(&"any") {
        return length;
    }
    let mut end = length;
    while let [Token::Mark('#'), Token::Mark('['), ..] = &tokens[end..] {
        end += 1 + block_length(&tokens[end + 1..]);
    }
    let is_item = names(&tokens[end..])
        .find(|word| !VISIBILITY.contains(word))
        .is_some_and(|word| ITEM_STARTS.contains(&word));
    loop {
        end += match tokens.get(end) {
            None | Some(Token::Mark('}' | ')')) => return end,
            Some(Token::Mark(';')) => return end + 1,
            Some(Token::Mark(',')) if !is_item => return end + 1,
            Some(Token::Mark('{')) if is_item => return end + block_length(&tokens[end..]),
            Some(Token::Mark('(' | '[' | '{')) => block_length(&tokens[end..]),
            Some(_) => 1,
        };
    }
}

/// Words of a visibility, such as `pub(in crate::a)`.
const VISIBILITY: [&str; 5] = ["pub", "crate", "super", "self", "in"];

/// Words that begin an item or a statement. A comma does not end these, in contrast to a field.
const ITEM_STARTS: [&str; 16] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

fn names(tokens: &[Token]) -> impl Iterator<Item = &str> {
    tokens.iter().filter_map(|token| match token {
        Token::Name(name) => Some(name.as_str()),
        _ => None,
    })
}

/// Whether `tokens` begin with two tuples and an equals sign between them, as in `(a, b) = (x, y)`.
/// The first one may have a type.
fn is_tuple_for_tuple(tokens: &[Token]) -> bool {
    let (left, after) = tokens.split_at(block_length(tokens));
    let after = match after {
        [Token::Mark(':'), kind @ ..] if kind.first() == Some(&Token::Mark('(')) => {
            &kind[block_length(kind)..]
        }
        untyped => untyped,
    };
    let [Token::Mark('='), right @ ..] = after else {
        return false;
    };
    right.first() == Some(&Token::Mark('('))
        && is_tuple(left)
        && is_tuple(&right[..block_length(right)])
}

/// Whether a block in brackets has a comma of its own.
fn is_tuple(block: &[Token]) -> bool {
    let mut depth = 0_usize;
    block.iter().any(|token| {
        match token {
            Token::Mark('{' | '(' | '[') => depth += 1,
            Token::Mark('}' | ')' | ']') => depth -= 1,
            _ => {}
        }
        depth == 1 && *token == Token::Mark(',')
    })
}

/// The length of the block that begins with the bracket at the start of `tokens`.
fn block_length(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('{' | '(' | '[') => depth += 1,
            Token::Mark('}' | ')' | ']') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}
