//! Expressions with their results, taken over from upstream's tables:
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation_test.go` and
//! `k8s.io/apiserver/pkg/cel/library/*_test.go`.

use serde_json::json;

use super::types::Type;
use super::value::Val;
use super::{Declarations, Fail, Program, Variables};

struct Values;

impl Variables for Values {
    fn get(&self, name: &str) -> Option<Val> {
        (name == "self").then(|| {
            Val::of_json(&json!({
                "text": "rook takes 👑", "number": 7, "double": 1.5, "yes": true,
                "list": [3, 1, 2], "names": ["a", "b"], "map": {"k": "v", "l": "w"},
                "things": [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}], "nothing": null,
            }))
        })
    }
}

fn compile(source: &str) -> Result<Program, String> {
    let variables = Declarations::from([("self".to_owned(), Type::Dyn)]);
    Program::compile(source, &variables, &())
}

fn run(source: &str) -> Result<Val, Fail> {
    let program = compile(source).map_err(Fail::new)?;
    program.run(&Values, &mut 0)
}

/// Upstream: `pkg/cel/mutation/typeresolver_test.go` of `k8s.io/apiserver`.
#[test]
fn mutations_construct_objects_and_operations() {
    let declarations = Declarations {
        patches: true,
        ..Declarations::default()
    };
    let run = |source: &str, spent: &mut u64| {
        let program = Program::compile(source, &declarations, &()).map_err(Fail::new)?;
        program.run(&Values, spent)
    };
    let cases = [
        "Object{intList: [1, 2, 3]}.intList.sum() == 6",
        "Object{spec: Object.spec{replicas: 3}} == Object{spec: Object.spec{replicas: 1 + 2}}",
        "Object{a: Object.a{}} != Object{a: Object.b{}}",
        "Object{?existing: optional.none()} == Object{} && Object{?a: optional.of(1)}.a == 1",
        "Object{?spec: optional.ofNonZeroValue(Object.spec{?replicas: Object{}.?replicas})} == Object{}",
        "has(Object{a: 1}.a) && !has(Object{}.a) && Object{}.a == null",
        "JSONPatch{op: 'add', value: 3}.value == 3 && JSONPatch{path: '/a'} != JSONPatch{path: '/b'}",
        "(true ? JSONPatch{op: 'add'} : JSONPatch{op: 'remove'}).op == 'add'",
        "JSONPatch{}.op == '' && !has(JSONPatch{}.value)",
        "jsonpatch.escapeKey('k8s.io/x~y') == 'k8s.io~1x~0y'",
    ];
    for source in cases {
        assert_eq!(run(source, &mut 0), Ok(Val::Bool(true)), "{source}");
    }
    let mut spent = 0;
    run("Object{}", &mut spent).unwrap();
    assert_eq!(spent, 40);

    let json = run(
        "Object{a: [Object.a{b: 1.0}], c: {'d': duration('90s')}, e: b'x', f: 1.5}",
        &mut 0,
    );
    assert_eq!(
        json.unwrap().to_json(),
        Ok(json!({"a": [{"b": 1}], "c": {"d": "90s"}, "e": "eA==", "f": 1.5}))
    );
    for source in ["Object{}", "JSONPatch{}", "jsonpatch.escapeKey('a')"] {
        assert!(compile(source).is_err(), "{source}");
    }
}

#[test]
fn true_expressions_are_true() {
    let cases = [
        // Operators and conversions.
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 % 3 == -1",
        "dyn(1) == 1.0 && dyn(1u) == 1 && 2 > 1.5 && 1u < 2",
        "-9223372036854775808 < 0 && 0x1F == 31",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && r'\\d' == '\\\\d'",
        "\"\"\"a\nb\"\"\" == 'a\\nb' && '\\u00e9' == 'é' && '\\x41\\101' == 'AA'",
        "int('5') == 5 && string(5) == '5' && double('1.5') == 1.5 && bool('true') && uint(3) == 3u",
        "string(1.0) == '1' && string(1e30) == '1e+30' && string(b'x') == 'x'",
        "type(1) == int && type('') == string && type([]) == list && type({}) == map && type(null) == null_type",
        "type(timestamp('2000-01-01T00:00:00Z')) == google.protobuf.Timestamp",
        "'%s %s %s'.format([type([1]), type(null), type(1)]) == 'list null_type int'",
        "1 in [1, 2] && !('z' in self.names) && 'k' in self.map && self.list[0] == 3 && self.map['k'] == 'v'",
        "self.yes ? true : 1 / 0 == 0",
        "true || 1 / 0 == 0",
        "1 / 0 == 0 || true",
        "!(false && 1 / 0 == 0)",
        "[1, 2] + [3] == [1, 2, 3] && {'a': 1} == {'a': 1} && [] != [1]",
        "size('👑') == 1 && 'abc'.size() == 3 && size(self.list) == 3 && self.map.size() == 2",
        // Macros.
        "has(self.text) && !has(self.missing) && has(self.map.k)",
        "self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x == 2)",
        "self.map.all(k, k != 'z') && self.list.existsOne(x, x > 2)",
        "self.list.map(x, x * 2) == [6, 2, 4] && self.list.map(x, x > 1, x * 2) == [6, 4]",
        "self.list.filter(x, x > 1) == [3, 2] && self.map.map(k, k) == ['k', 'l']",
        "[1, 'x'.size() - 1].exists(x, 1 / x == 1)",
        "self.list.all(i, v, i >= 0 && v > 0) && self.map.exists(k, v, k == 'l' && v == 'w')",
        "self.list.transformList(i, v, i * v) == [0, 1, 4] && self.map.transformMap(k, v, k + v) == {'k': 'kv', 'l': 'lw'}",
        "self.map.transformMapEntry(k, v, {v: k}) == {'v': 'k', 'w': 'l'}",
        "self.map.transformList(k, v, k == 'k', v) == ['v']",
        // Optionals.
        "self.?missing.orValue('d') == 'd' && self.?text.hasValue() && self.?map.?k.value() == 'v'",
        "self.map[?'z'].orValue('d') == 'd' && self.list[?9] == optional.none() && [?self.?missing, self.number] == [7]",
        "optional.of(2).optMap(x, x + 1).value() == 3 && !optional.none().optMap(x, x).hasValue()",
        "optional.of(2).optFlatMap(x, optional.of(x)).value() == 2 && {?'a': optional.none()} == {}",
        "optional.ofNonZeroValue('') == optional.none() && optional.of(1).or(optional.of(2)).value() == 1",
        // Texts.
        "'hello'.charAt(1) == 'e' && 'hello'.indexOf('l') == 2 && 'hello'.indexOf('l', 3) == 3 && 'hello'.lastIndexOf('l') == 3",
        "'hello'.lastIndexOf('l', 2) == 2 && 'a,b'.split(',') == ['a', 'b'] && 'abc'.split('', 2) == ['a', 'bc']",
        "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab' && ' x '.trim() == 'x'",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'TacoCÆt'.upperAscii() == 'TACOCÆT'",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "self.text.substring(5) == 'takes 👑' && self.text.substring(0, 4) == 'rook' && self.text.charAt(11) == '👑'",
        "'abc'.matches('^a.c$') && matches('abc', 'b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.contains('b')",
        "'%s %d %.2f %x %b %o %e'.format(['a', 1, 1.5, 255, 5, 8, 1234.5]) == 'a 1 1.50 ff 101 10 1.234500e+03'",
        "'%s'.format([[1, 'a', 1.5, {'k': true}]]) == '[1, \"a\", 1.500000, {\"k\":true}]' && '100%%'.format([]) == '100%'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        // Times.
        "timestamp('2000-01-02T03:04:05.678Z').getFullYear() == 2000 && timestamp('2000-01-02T03:04:05Z').getDate() == 2",
        "timestamp('2000-01-02T03:04:05Z').getDayOfWeek() == 0 && timestamp('2000-01-02T03:04:05Z').getHours('-01:00') == 2",
        "timestamp('2000-01-02T00:00:00Z') - timestamp('2000-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2000-01-01T00:00:00Z') + duration('1h') > timestamp('2000-01-01T00:00:00Z')",
        "duration('90s').getMinutes() == 1 && duration('1h30m') == duration('90m') && string(duration('90s')) == '90s'",
        // Lists.
        "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [duration('1m'), duration('1s')].sum() == duration('1m1s')",
        "[3, 1].min() == 1 && ['a', 'b'].max() == 'b' && [1, 2].isSorted() && !['b', 'a'].isSorted()",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && ['a'].indexOf('z') == -1",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [1, 2, 3].slice(1, 2) == [2] && lists.range(3) == [0, 1, 2]",
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2] && [1, 2].reverse() == [2, 1]",
        "self.things.sortBy(t, -t.n).map(t, t.s) == ['y', 'x']",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        // Kubernetes' libraries.
        "'abc 123'.find('[0-9]+') == '123' && '1 2 3'.findAll('[0-9]') == ['1', '2', '3'] && '1 2 3'.findAll('[0-9]', 1) == ['1']",
        "url('https://user@example.com:80/path%20x?k=a&k=b').getHost() == 'example.com:80'",
        "url('https://example.com:80/p').getPort() == '80' && url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://example.com/a b?k=a&k=b').getQuery() == {'k': ['a', 'b']} && url('/x').getEscapedPath() == '/x'",
        "isURL('https://x.y/z') && !isURL('../x') && !isURL('http://x:port/')",
        "quantity('1.5Gi').isGreaterThan(quantity('1500M')) && quantity('50k') == quantity('50000') && isQuantity('1m')",
        "quantity('50k').add(20).sub(quantity('10k')) == quantity('40020') && quantity('1k').asInteger() == 1000",
        "quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50.703k').asApproximateFloat() == 50703.0 && quantity('-1').sign() == -1",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && isIP('1.2.3.4') && !isIP('1.2.3')",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('1.2.3.4')) == '1.2.3.4'",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.0'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('::/0').prefixLength() == 0 && cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && isCIDR('::1/128') && !isCIDR('1.2.3.4')",
        "semver('1.2.3').isLessThan(semver('1.2.4-rc.1')) && semver('1.0.0-alpha') != semver('1.0.0') && isSemver('1.2.3+b') && !isSemver('v1.0')",
        "semver('v1.0', true).major() == 1 && isSemver('01.2', true) && semver('1.2.3').compareTo(semver('1.2.3')) == 0",
        "!format.dns1123Label().validate('my-name').hasValue() && format.named('dns1123Label').value().validate('My').hasValue()",
        "!format.dns1123LabelPrefix().validate('my-').hasValue() && !format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
    ];
    let failed: Vec<_> = cases
        .into_iter()
        .map(|source| (source, run(source)))
        .filter(|(_, result)| *result != Ok(Val::Bool(true)))
        .collect();
    assert_eq!(failed, []);
}

#[test]
fn failures_have_the_words_of_cel_go() {
    let cases = [
        ("1 / 0 == 0", "division by zero"),
        ("1 % 0 == 0", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("self.missing == 1", "no such key: missing"),
        ("self.map['z'] == 'v'", "no such key: z"),
        ("self.list[5] == 1", "index out of bounds: 5"),
        ("self.text + 1 == 2", "no such overload"),
        (
            "int('x') == 1",
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "optional.none().value() == 1",
            "optional.none() dereference",
        ),
        ("'a'.charAt(5) == ''", "index out of range: 5"),
        (
            "self.list.filter(x, x > 9).min() == 1",
            "min called on empty list",
        ),
        (
            "quantity('x').sign() == 1",
            steersman_values::quantity::BAD_QUANTITY,
        ),
    ];
    for (source, problem) in cases {
        assert_eq!(run(source), Err(Fail::new(problem)), "{source}");
    }
}

#[test]
fn wrong_expressions_are_refused_with_their_place() {
    let cases = [
        (
            "1 + 'a' == 2",
            "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a' == 2\n | ..^",
        ),
        (
            "foo(1)",
            "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')\n | foo(1)\n | ...^",
        ),
        (
            "self ==",
            "ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self ==\n | .......^",
        ),
        (
            "(self",
            "ERROR: <input>:1:6: Syntax error: missing ')' at '<EOF>'\n | (self\n | .....^",
        ),
        (
            "self foo",
            "ERROR: <input>:1:6: Syntax error: extraneous input 'foo' expecting <EOF>\n | self foo\n | .....^",
        ),
        (
            "has(self)",
            "ERROR: <input>:1:5: invalid argument to has() macro\n | has(self)\n | ....^",
        ),
        (
            "'x'.map(a, a) == []",
            "ERROR: <input>:1:1: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)\n | 'x'.map(a, a) == []\n | ^",
        ),
        (
            "[1, 'a'] == []",
            "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'] == []\n | ....^",
        ),
        (
            "'x'.matches('[')",
            "ERROR: <input>:1:13: invalid matches argument\n | 'x'.matches('[')\n | ............^",
        ),
        (
            "a &&\nb",
            "ERROR: <input>:1:1: undeclared reference to 'a' (in container '')\n | a &&\n | ^\nERROR: <input>:2:1: undeclared reference to 'b' (in container '')\n | b\n | ^",
        ),
        (
            "1 && true",
            "ERROR: <input>:1:1: expected type 'bool' but found 'int'\n | 1 && true\n | ^",
        ),
        (
            "Foo{a: 1}.a == 1",
            "ERROR: <input>:1:4: undeclared reference to 'Foo' (in container '')\n | Foo{a: 1}.a == 1\n | ...^",
        ),
    ];
    for (source, problem) in cases {
        assert_eq!(compile(source).unwrap_err(), problem, "{source}");
    }
}

#[test]
fn an_evaluation_ends_at_the_cost_limit() {
    let source = "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))";
    let mut spent = 0;
    let result = compile(source).unwrap().run(&Values, &mut spent);
    assert_eq!(result, Err(Fail::Cost));
    assert!((1_000_000..1_100_000).contains(&spent), "{spent}");
}

/// Upstream: `TestRuntimeCELCostBudget` and the costs in `library/cost_test.go`.
#[test]
fn costs_are_those_of_cel_go() {
    let cases = [
        ("true", 0),
        ("self.yes", 2),
        ("1 + 2 == 3", 2),
        ("[1, 2, 3].sum() == 6", 4),
        ("'hello'.lowerAscii() == 'hello'", 2),
        ("has(self.text)", 1),
    ];
    for (source, cost) in cases {
        let mut spent = 0;
        compile(source).unwrap().run(&Values, &mut spent).unwrap();
        assert_eq!(spent, cost, "{source}");
    }
}

#[test]
fn deep_expressions_are_refused() {
    let deep = [
        format!("{}1{}", "(".repeat(30_000), ")".repeat(30_000)),
        format!("{}1{}", "[".repeat(30_000), "]".repeat(30_000)),
        format!("1{}", " + 1".repeat(20_000)),
        format!("self{}", ".a".repeat(40_000)),
        format!("{}true", "!-".repeat(40_000)),
        format!("{}1", "true ? 1 : ".repeat(5_000)),
    ];
    for source in deep {
        assert!(compile(&source).is_err(), "{}", &source[..20]);
    }
    let many = format!("true{}", " && true".repeat(2_000));
    assert_eq!(run(&many), Ok(Val::Bool(true)));
    assert_eq!(
        run(&format!("{}true", "!".repeat(4_000))),
        Ok(Val::Bool(true))
    );
    assert!(compile(&format!("{}1{} == 1", "(".repeat(50), ")".repeat(50))).is_ok());
}
