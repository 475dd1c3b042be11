# Functions for gdb that print what it knows of objects, as JSON and otherwise.
import gdb
import json
import struct


class Number(float):
    """A float, as short as it can be told from others of 4 bytes."""

    def __repr__(self):
        for digits in range(1, 10):
            text = "%.*g" % (digits, self)
            if struct.pack("f", float(text)) == struct.pack("f", self):
                return repr(float(text))


def fields(v, t, into):
    own = {f.name for f in t.fields()}
    for f in t.fields():
        if f.artificial or not hasattr(f, "bitpos"):
            continue
        if f.is_base_class or not f.name:
            inner = {}
            fields(v[f], f.type.strip_typedefs(), inner)
            for name, x in inner.items():
                if name not in own and name not in into:
                    into[name] = x
        else:
            into[f.name] = plain(v[f])
    return into


def plain(v):
    t = v.type.strip_typedefs()
    if t.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return fields(v, t, {})
    if t.code == gdb.TYPE_CODE_ARRAY:
        low, high = t.range()
        of = t.target().strip_typedefs().unqualified()
        if str(of) == "char":
            text = bytes(int(v[i]) & 255 for i in range(low, high + 1))
            return text.split(b"\0")[0].decode("utf-8", "replace")
        return [plain(v[i]) for i in range(low, high + 1)]
    if t.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        return hex(int(v.address if v.address else v.referenced_value().address))
    if t.code == gdb.TYPE_CODE_PTR:
        return hex(int(v))
    if t.code == gdb.TYPE_CODE_ENUM:
        return str(v).rsplit("::", 1)[-1]
    if t.code == gdb.TYPE_CODE_BOOL:
        return bool(v)
    if t.code == gdb.TYPE_CODE_FLT:
        x = float(v)
        if x != x:
            return "NaN"
        if t.sizeof == 4:
            return json.loads(repr(Number(x)))
        return x
    return int(v)


def put(text):
    gdb.write(text)


def objects(expression):
    put(json.dumps(plain(gdb.parse_and_eval(expression)), ensure_ascii=False))


def arguments():
    frame = gdb.selected_frame()
    put(json.dumps({s.name: plain(s.value(frame)) for s in frame.block() if s.is_argument}, ensure_ascii=False))


def symbol(expression):
    put(gdb.execute("info symbol %d" % int(gdb.parse_and_eval(expression)), to_string=True).split()[0])


def memory(expression, size):
    put(bytes(gdb.selected_inferior().read_memory(int(gdb.parse_and_eval(expression)), size)).hex())
