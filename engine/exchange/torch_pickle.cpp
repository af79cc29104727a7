#include "engine/exchange/torch_pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "engine/data/files/file_bytes.h"

// Opcodes: Python's pickletools.

namespace lockstep::exchange {

using Kind = PickleValue::Kind;
using Value = const PickleValue*;

namespace {

constexpr std::string_view ordered_dict = "collections OrderedDict";
constexpr std::string_view rebuild_tensor = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view rebuild_parameter = "torch._utils _rebuild_parameter";

bool is_storage_class(std::string_view global) { return global.starts_with("torch ") && global.ends_with("Storage"); }

bool is_known(std::string_view global) {
  return global == ordered_dict || global == rebuild_tensor || global == rebuild_parameter || is_storage_class(global);
}

}  // namespace

/// A stack, marks on it, and a memo of values by number.
class TorchPickle::Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::string file, std::deque<PickleValue>& values)
      : file_(bytes, std::move(file), "load_torch"), values_(values) {}

  Value run() {
    while (true) {
      op_ = at_;
      const auto opcode = static_cast<unsigned char>(number<std::uint8_t>());
      if (opcode == '.') return pop();
      step(opcode);
    }
  }

 private:
  template <class T>
  T number() {
    const T value = file_.number<T>(at_, "pickle");
    at_ += sizeof(T);
    return value;
  }
  std::string bytes(std::uint64_t count) {
    const auto part = file_.part(at_, count, "pickle");
    at_ += count;
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string line() {
    std::string text;
    for (char c = static_cast<char>(number<std::uint8_t>()); c != '\n'; c = static_cast<char>(number<std::uint8_t>())) {
      text += c;
    }
    return text;
  }
  [[noreturn]] void fail(const std::string& what) const { file_.fail(op_, what); }

  PickleValue& make(Kind kind) {
    PickleValue& value = values_.emplace_back();
    value.kind = kind;
    return value;
  }
  void push(Value value) { stack_.push_back(value); }
  void push_integer(std::int64_t value) {
    PickleValue& made = make(Kind::integer);
    made.integer = value;
    push(&made);
  }
  Value top() const {
    if (stack_.size() <= bottom()) fail("the pickle takes a value that is not there; the file is damaged");
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Value> pop_mark() {
    if (marks_.empty()) fail("the pickle takes a mark that is not there; the file is damaged");
    std::vector<Value> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_tuple(std::vector<Value> items) {
    PickleValue& tuple = make(Kind::tuple);
    tuple.items = std::move(items);
    push(&tuple);
  }
  void push_popped_tuple(std::size_t count) {
    std::vector<Value> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_tuple(std::move(items));
  }
  /// Containers change while the pickle is read, and never afterwards.
  PickleValue& container(Kind kind) {
    if (top()->kind != kind) fail("the pickle adds to what is no container; the file is damaged");
    return const_cast<PickleValue&>(*top());
  }
  void append(Kind kind, const std::vector<Value>& items) {
    PickleValue& to = container(kind);
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a dict's key without a value; the file is damaged");
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  void step(unsigned char opcode);
  bool step_scalar(unsigned char opcode);
  bool step_memo(unsigned char opcode);
  void push_global();
  void push_storage();
  void reduce();
  Value tensor(const std::vector<Value>& arguments);
  void read_metadata(Value metadata, PickleValue& tensor) const;

  data::FileBytes file_;
  std::deque<PickleValue>& values_;
  std::uint64_t at_ = 0;
  std::uint64_t op_ = 0;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint32_t, Value> memo_;
};

bool TorchPickle::Machine::step_scalar(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      push(&make(Kind::none));
      return true;
    case 0x88:
    case 0x89: {
      PickleValue& value = make(Kind::boolean);
      value.integer = opcode == 0x88 ? 1 : 0;
      push(&value);
      return true;
    }
    case 'J':
      push_integer(number<std::int32_t>());
      return true;
    case 'K':
      push_integer(number<std::uint8_t>());
      return true;
    case 'M':
      push_integer(number<std::uint16_t>());
      return true;
    case 0x8a: {  // LONG1: two's complement
      const auto count = number<std::uint8_t>();
      if (count > 8) fail("a whole number of more than 64 bits");
      const std::string digits = bytes(count);
      std::uint64_t value = count > 0 && static_cast<signed char>(digits.back()) < 0 ? ~std::uint64_t{0} : 0;
      for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
      push_integer(static_cast<std::int64_t>(value));
      return true;
    }
    case 'G': {  // big-endian
      std::uint64_t bits = 0;
      for (int i = 0; i < 8; ++i) bits = bits << 8 | number<std::uint8_t>();
      PickleValue& value = make(Kind::real);
      value.real = std::bit_cast<double>(bits);
      push(&value);
      return true;
    }
    case 'X': {
      PickleValue& value = make(Kind::text);
      value.text = bytes(number<std::uint32_t>());
      push(&value);
      return true;
    }
    default:
      return false;
  }
}

bool TorchPickle::Machine::step_memo(unsigned char opcode) {
  const bool puts = opcode == 'q' || opcode == 'r';
  if (!puts && opcode != 'h' && opcode != 'j') return false;
  const std::uint32_t place = opcode == 'q' || opcode == 'h' ? number<std::uint8_t>() : number<std::uint32_t>();
  if (puts) {
    memo_[place] = top();
    return true;
  }
  const auto found = memo_.find(place);
  if (found == memo_.end()) fail(fmt::format("the pickle asks for value {} before there is one", place));
  push(found->second);
  return true;
}

void TorchPickle::Machine::step(unsigned char opcode) {
  if (step_scalar(opcode) || step_memo(opcode)) return;
  switch (opcode) {
    case 0x80:
      if (const auto protocol = number<std::uint8_t>(); protocol != 2) {
        fail(fmt::format("pickle protocol {}; expected 2, which torch.save writes unless told otherwise", protocol));
      }
      return;
    case '(':
      marks_.push_back(stack_.size());
      return;
    case ')':
      return push_tuple({});
    case 0x85:
    case 0x86:
    case 0x87:
      return push_popped_tuple(static_cast<std::size_t>(opcode - 0x84));
    case 't':
      return push_tuple(pop_mark());
    case '}':
      return push(&make(Kind::dict));
    case ']':
      return push(&make(Kind::list));
    case 's': {
      const Value value = pop(), key = pop();
      return append(Kind::dict, {key, value});
    }
    case 'u':
    case 'e': {
      const std::vector<Value> items = pop_mark();
      return append(opcode == 'u' ? Kind::dict : Kind::list, items);
    }
    case 'a': {
      const Value item = pop();
      return append(Kind::list, {item});
    }
    case 'c':
      return push_global();
    case 'Q':
      return push_storage();
    case 'R':
      return reduce();
    case 'b':  // attributes of an OrderedDict, the version of a module: nothing of it is a tensor's
      pop();
      container(Kind::dict);
      return;
    default:
      fail(fmt::format("pickle opcode 0x{:02x} is none that a dict of tensors needs; save model.state_dict()", opcode));
  }
}

void TorchPickle::Machine::push_global() {
  const std::string module = line();
  PickleValue& global = make(Kind::global);
  global.text = module + " " + line();
  if (!is_known(global.text)) {
    fail("the pickle names " + data::shown(global.text) +
         ", and nothing that a file names is run here; save a dict of tensors, model.state_dict()");
  }
  push(&global);
}

/// Of ('storage', class, key, device, elements).
void TorchPickle::Machine::push_storage() {
  const Value id = pop();
  if (id->kind != Kind::tuple || id->items.size() != 5 || id->items[0]->text != "storage" ||
      id->items[1]->kind != Kind::global || !is_storage_class(id->items[1]->text) || id->items[2]->kind != Kind::text ||
      id->items[4]->kind != Kind::integer) {
    fail("a storage must be ('storage', class, key, device, number of elements)");
  }
  PickleValue& storage = make(Kind::storage);
  storage.storage_class = id->items[1]->text.substr(std::string_view("torch ").size());
  storage.text = id->items[2]->text;
  storage.integer = id->items[4]->integer;
  push(&storage);
}

void TorchPickle::Machine::reduce() {
  const Value arguments = pop(), function = pop();
  if (function->kind != Kind::global || arguments->kind != Kind::tuple) {
    fail("the pickle calls what is no known function; the file is damaged");
  }
  if (function->text == ordered_dict && arguments->items.empty()) return push(&make(Kind::dict));
  if (function->text == rebuild_tensor) return push(tensor(arguments->items));
  if (function->text == rebuild_parameter && !arguments->items.empty() && arguments->items[0]->kind == Kind::tensor) {
    return push(arguments->items[0]);
  }
  fail("the pickle calls " + data::shown(function->text) + " with arguments that torch.save does not give it");
}

Value TorchPickle::Machine::tensor(const std::vector<Value>& arguments) {
  const auto are_integers = [](Value tuple) {
    return tuple->kind == Kind::tuple &&
           std::ranges::all_of(tuple->items, [](Value item) { return item->kind == Kind::integer; });
  };
  if (arguments.size() < 4 || arguments[0]->kind != Kind::storage || arguments[1]->kind != Kind::integer ||
      !are_integers(arguments[2]) || !are_integers(arguments[3]) ||
      arguments[2]->items.size() != arguments[3]->items.size()) {
    fail("a tensor must be made of a storage, an offset, sizes and as many strides");
  }
  PickleValue& made = make(Kind::tensor);
  made.items.assign(arguments.begin(), arguments.begin() + 4);
  if (arguments.size() > 7) fail(fmt::format("a tensor of {} arguments; expected at most 7", arguments.size()));
  if (arguments.size() == 7 && arguments[6]->kind != Kind::none) read_metadata(arguments[6], made);
  return &made;
}

/// Reads the bits of a lazy view, {'conj': True, 'neg': True}: torch.save writes them and the storage as it is.
void TorchPickle::Machine::read_metadata(Value metadata, PickleValue& tensor) const {
  if (metadata->kind != Kind::dict) fail("a tensor's metadata must be a dict such as {'conj': True}");
  for (std::size_t i = 0; i + 1 < metadata->items.size(); i += 2) {
    const Value key = metadata->items[i], value = metadata->items[i + 1];
    const bool is_conjugate = key->kind == Kind::text && key->text == "conj";
    if (!is_conjugate && (key->kind != Kind::text || key->text != "neg")) {
      fail("a tensor's metadata holds " +
           (key->kind == Kind::text ? data::shown(key->text) : std::string("a key that is no text")) +
           "; expected 'conj' and 'neg' only; save tensor.clone()");
    }
    if (value->kind != Kind::boolean) fail("a tensor's metadata '" + key->text + "' must be True or False");
    (is_conjugate ? tensor.conjugated : tensor.negated) = value->integer != 0;
  }
}

TorchPickle::TorchPickle(std::span<const std::byte> bytes, std::string file)
    : root_(Machine(bytes, std::move(file), values_).run()) {}

namespace {

class PickleWriter {
 public:
  void raw(std::string_view text) { pickle_ += text; }
  void text(std::string_view value) {
    pickle_ += 'X';
    little(value.size(), 4);
    pickle_ += value;
  }
  void global(std::string_view name) {
    pickle_ += 'c';
    pickle_ += name.substr(0, name.find(' '));
    pickle_ += '\n';
    pickle_ += name.substr(name.find(' ') + 1);
    pickle_ += '\n';
  }
  void integer(std::int64_t value) {
    pickle_ += "\x8a\x08";
    little(static_cast<std::uint64_t>(value), 8);
  }
  void integers(const std::vector<std::int64_t>& values) {
    pickle_ += '(';
    for (const std::int64_t value : values) integer(value);
    pickle_ += 't';
  }
  void empty_dict() {
    global(ordered_dict);
    pickle_ += ")R";
  }
  std::string take() { return std::move(pickle_); }

 private:
  void little(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) pickle_ += static_cast<char>(value >> (8 * i));
  }
  std::string pickle_;
};

}  // namespace

std::string write_torch_pickle(const std::vector<PickledTensor>& tensors) {
  PickleWriter out;
  out.raw("\x80\x02");
  out.empty_dict();
  out.raw("(");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PickledTensor& tensor = tensors[i];
    std::vector<std::int64_t> strides(tensor.shape.size(), 1);
    for (std::size_t d = strides.size(); d-- > 1;)
      strides[d - 1] = strides[d] * std::max<std::int64_t>(1, tensor.shape[d]);
    std::int64_t count = 1;
    for (const std::int64_t extent : tensor.shape) count *= extent;
    out.text(tensor.name);
    out.global(rebuild_tensor);
    out.raw("((");
    out.text("storage");
    out.global("torch " + std::string(tensor.storage_class));
    out.text(std::to_string(i));
    out.text("cpu");
    out.integer(count);
    out.raw("tQ");
    out.integer(0);
    out.integers(tensor.shape);
    out.integers(strides);
    out.raw("\x89");
    out.empty_dict();
    out.raw("tR");
  }
  out.raw("u.");
  return out.take();
}

}  // namespace lockstep::exchange
