#include "common/comm/mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra {
namespace {

constexpr std::size_t kMostRanks = 1 << 20;

using Names = std::vector<std::string_view>;

bool has(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void expect_size(const Axis& axis) {
  if (axis.size < 1) {
    throw ConfigError(fmt::format("{} is {}. It must be at least 1.", axis.name, axis.size));
  }
  if (axis.size > kMostRanks) {
    throw ConfigError(fmt::format("{} is {}: too many ranks", axis.name, axis.size));
  }
}

void expect_different(const std::vector<Axis>& axes) {
  for (std::size_t i = 1; i < axes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[i].name == axes[j].name) {
        throw ConfigError(fmt::format("the mesh has two axes '{}'", axes[i].name));
      }
      if (axes[i].nearness == axes[j].nearness) {
        throw ConfigError(fmt::format("{} and {} are equally near: which of them has neighbours?",
                                      axes[j].name, axes[i].name));
      }
    }
  }
}

/// The view that has an axis; null when none has.
const MeshView* view_of(const MeshShape& shape, std::string_view axis) {
  for (const MeshView& view : shape.views()) {
    if (std::ranges::find(view.by, axis, &Axis::name) != view.by.end()) return &view;
  }
  return nullptr;
}

/// A number that ranks share exactly when they stand at the same place along all these axes.
int color_of(const MeshShape& shape, int rank, const Names& axes) {
  int color = 0;
  for (const std::string_view axis : axes) {
    color = color * shape.size(axis) + shape.position(rank, axis);
  }
  return color;
}

/// The axes of the mesh but for some.
Names all_but(const MeshShape& shape, const Names& names) {
  Names others;
  for (const Axis& axis : shape.axes()) {
    if (!has(names, axis.name)) others.push_back(axis.name);
  }
  return others;
}

}  // namespace

Axis replicas(std::size_t size) {
  return {
      .name = std::string(kReplicaAxis), .size = size, .splits = Splits::kBatch, .nearness = 10};
}

MeshShape::MeshShape(std::vector<Axis> axes, std::vector<MeshView> views)
    : axes_(std::move(axes)), views_(std::move(views)) {
  std::ranges::for_each(axes_, expect_size);
  expect_different(axes_);
  std::ranges::sort(axes_, {}, &Axis::nearness);
  std::size_t product = 1;
  for (const Axis& axis : axes_) {
    product *= axis.size;
    if (product > kMostRanks) throw ConfigError(fmt::format("{}: too many ranks", str()));
  }
  for (MeshView& view : views_) {
    std::vector<int> replaced;
    std::size_t rest = 1;
    for (const std::string& axis : view.replaces) {
      rest *= static_cast<std::size_t>(replaced.emplace_back(size(axis)));
    }
    for (const Axis& axis : view.by) {
      expect_size(axis);
      if (rest % axis.size != 0) {
        throw ConfigError(fmt::format("{} must divide {}: {} % {} = {}. Choose a divisor of {}.",
                                      axis.name, fmt::join(view.replaces, " * "),
                                      fmt::join(replaced, " * "), axis.size, rest % axis.size,
                                      rest));
      }
      rest /= axis.size;
    }
    view.by.insert(view.by.begin(), {.name = view.rest, .size = rest});
  }
}

int MeshShape::world_size() const {
  int product = 1;
  for (const Axis& axis : axes_) product *= static_cast<int>(axis.size);
  return product;
}

int MeshShape::size(std::string_view axis) const {
  const MeshView* const view = view_of(*this, axis);
  const std::vector<Axis>& among = view == nullptr ? axes_ : view->by;
  const auto found = std::ranges::find(among, axis, &Axis::name);
  return found == among.end() ? 1 : static_cast<int>(found->size);
}

int MeshShape::position(int world_rank, std::string_view axis) const {
  const MeshView* const view = view_of(*this, axis);
  int place = world_rank;
  if (view != nullptr) {  // its place among the replaced axes
    Names replaced;
    for (const Axis& own : axes_) {
      if (std::ranges::find(view->replaces, own.name) != view->replaces.end()) {
        replaced.emplace_back(own.name);
      }
    }
    place = color_of(*this, world_rank, replaced);
  }
  const std::vector<Axis>& among = view == nullptr ? axes_ : view->by;
  for (auto inner = among.rbegin(); inner != among.rend(); ++inner) {
    const auto size = static_cast<int>(inner->size);
    if (inner->name == axis) return place % size;
    place /= size;
  }
  return 0;
}

std::string MeshShape::str() const {
  std::string text;
  for (const Axis& axis : axes_) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " * ", axis.name, axis.size);
  }
  return text;
}

Mesh::Mesh(const Communicator& world, MeshShape shape) : world_(world), shape_(std::move(shape)) {
  if (shape_.world_size() != world.size()) {
    throw ConfigError(
        fmt::format("{} = {} ranks, but the world has {}. Their product must be the "
                    "number of ranks.",
                    shape_.str(), shape_.world_size(), world.size()));
  }
  std::map<std::string_view, std::vector<int>> positions;  // by axis, of all ranks
  const auto positions_along = [&](std::string_view axis) -> const std::vector<int>& {
    std::vector<int>& along = positions[axis];
    for (int rank = checked_cast<int>(along.size()); rank < world.size(); ++rank) {
      along.push_back(shape_.position(rank, axis));
    }
    return along;
  };
  const auto join = [&](const Names& axes, const Names& others) {
    std::vector<int> colors(static_cast<std::size_t>(world.size()));
    for (const std::string_view axis : others) {
      const std::vector<int>& along = positions_along(axis);
      const int size = shape_.size(axis);
      for (std::size_t i = 0; i < colors.size(); ++i) {
        colors[i] = colors[i] * size + along[i];
      }
    }
    const std::string name = fmt::format("{}", fmt::join(axes, "*"));
    groups_.emplace(
        name,
        world.split([&](int rank) { return colors.at(static_cast<std::size_t>(rank)); }, name));
  };
  // Every product at once: a group made later would have to be made by all ranks at that time.
  std::vector<Names> products = {{}};
  for (const Axis& axis : shape_.axes()) {
    if (axis.size == 1) continue;
    for (std::size_t i = 0, count = products.size(); i < count; ++i) {
      Names with = products[i];
      with.emplace_back(axis.name);
      products.push_back(std::move(with));
    }
  }
  for (const Names& axes : products) join(axes, all_but(shape_, axes));
  for (const MeshView& view : shape_.views()) {
    const Names replaced(view.replaces.begin(), view.replaces.end());
    for (const Axis& axis : view.by) {
      if (axis.size == 1) continue;
      Names others = all_but(shape_, replaced);
      for (const Axis& other : view.by) {
        if (other.name != axis.name) others.emplace_back(other.name);
      }
      join({axis.name}, others);
    }
  }
}

const Communicator& Mesh::group(const Names& axes) const {
  Names matter;
  for (const Axis& axis : shape_.axes()) {
    if (axis.size > 1 && has(axes, axis.name)) matter.emplace_back(axis.name);
  }
  for (const std::string_view axis : axes) {
    const MeshView* const view = view_of(shape_, axis);
    if (view == nullptr) continue;
    if (axes.size() > 1) {
      throw ConfigError(fmt::format(
          "the mesh has no group '{}': {} counts ranks of {} once more and stands alone",
          fmt::join(axes, "*"), axis, fmt::join(view->replaces, " x ")));
    }
    if (shape_.size(axis) > 1) matter = {axis};
  }
  return groups_.at(fmt::format("{}", fmt::join(matter, "*")));
}

}  // namespace ultra
