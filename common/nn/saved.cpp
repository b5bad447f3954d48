#include "common/nn/saved.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::nn {
namespace {

template <class Entries>
auto find(Entries& entries, std::string_view name) {
  return std::find_if(entries.begin(), entries.end(),
                      [name](const auto& entry) { return entry.first == name; });
}

InternalError missing(std::string_view name) {
  return InternalError(
      fmt::format("no saved activation '{}': each backward pass needs its own forward pass before "
                  "it, with the same Saved",
                  name));
}

}  // namespace

Saved Saved::recomputing() const {
  Pass again = pass_;
  again.recomputes = true;
  return Saved(Mode::kKeep, again);
}

void Saved::put(std::string_view path, const Tensor& tensor) {
  if (mode_ == Mode::kDiscard) return;
  if (const std::size_t slash = path.find('/'); slash != path.npos) {
    return child(path.substr(0, slash)).put(path.substr(slash + 1), tensor);
  }
  if (tensor.category() == MemoryCategory::kOther) {
    tensor.set_category(MemoryCategory::kActivations);
  }
  if (const auto at = find(tensors_, path); at != tensors_.end()) {
    at->second = tensor;
  } else {
    tensors_.emplace_back(path, tensor);
  }
}

const Tensor& Saved::get(std::string_view name) const {
  const auto at = find(tensors_, name);
  if (at == tensors_.end()) throw missing(name);
  return at->second;
}

Tensor Saved::take(std::string_view name) {
  const auto at = find(tensors_, name);
  if (at == tensors_.end()) throw missing(name);
  Tensor tensor = std::move(at->second);
  tensors_.erase(at);
  return tensor;
}

void Saved::drop(std::string_view path) {
  if (const std::size_t slash = path.find('/'); slash != path.npos) {
    return child(path.substr(0, slash)).drop(path.substr(slash + 1));
  }
  if (const auto at = find(tensors_, path); at != tensors_.end()) tensors_.erase(at);
}

bool Saved::has(std::string_view name) const { return find(tensors_, name) != tensors_.end(); }

Saved& Saved::child(std::string_view name, Mode mode) {
  if (const auto at = find(children_, name); at != children_.end()) return *at->second;
  if (mode_ == Mode::kDiscard) mode = Mode::kDiscard;
  Saved& made = *children_.emplace_back(name, std::make_unique<Saved>(mode, pass_)).second;
  if (mode == Mode::kRemake && mode_ == Mode::kRemake) {
    static_cast<void>(remakeables());
    made.remakeables_ = remakeables_;
  }
  return made;
}

std::vector<Remakeable>& Saved::remakeables() {
  if (!remakeables_) remakeables_ = std::make_shared<std::vector<Remakeable>>();
  return *remakeables_;
}

void Saved::remakeable(const Tensor& y, std::function<Tensor()> make) {
  if (mode_ != Mode::kRemake) return;
  std::erase_if(remakeables(), [&](const Remakeable& r) { return r.tensor.shares_storage(y); });
  remakeables().push_back({.tensor = y, .make = std::move(make)});
}

bool Saved::can_remake(const Tensor& y) const {
  const auto is_y = [&](const Remakeable& r) { return r.tensor.shares_storage(y); };
  return remakeables_ && std::ranges::any_of(*remakeables_, is_y);
}

void Saved::clear() {
  tensors_.clear();
  children_.clear();
}

bool Saved::empty() const {
  return tensors_.empty() && std::all_of(children_.begin(), children_.end(),
                                         [](const auto& entry) { return entry.second->empty(); });
}

void Saved::visit_under(const std::string& prefix,
                        const std::function<void(const std::string&, const Tensor&)>& visit) const {
  for (const auto& [name, tensor] : tensors_) visit(prefix + name, tensor);
  for (const auto& [name, tree] : children_) tree->visit_under(prefix + name + "/", visit);
}

void Saved::for_each(const std::function<void(const std::string&, const Tensor&)>& visit) const {
  visit_under("", visit);
}

std::size_t Saved::bytes() const {
  std::vector<Tensor> counted;
  std::size_t bytes = 0;
  for_each([&](const std::string&, const Tensor& tensor) {
    const bool seen = std::any_of(counted.begin(), counted.end(),
                                  [&](const Tensor& t) { return t.shares_storage(tensor); });
    if (seen) return;
    counted.push_back(tensor);
    bytes += tensor.storage_bytes();
  });
  return bytes;
}

}  // namespace ultra::nn
