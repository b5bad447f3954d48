#include "chapters/04_zero/offload/offloaded_layout.hpp"

#include <algorithm>
#include <numeric>

namespace ultra::zero {

OffloadedLayout::OffloadedLayout(std::span<const std::size_t> counts, std::size_t states,
                                 std::size_t least, Weights weights)
    : states_(states), weights_(weights) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (blocks_.empty() || blocks_.back().elements.size() >= least) {
      blocks_.push_back({.tensors = {i, i}, .elements = {count_, count_}});
    }
    places_.push_back({count_, count_ + counts[i]});
    count_ += counts[i];
    blocks_.back().tensors.end = i + 1;
    blocks_.back().elements.end = count_;
    block_of_.push_back(blocks_.size() - 1);
  }
}

Range OffloadedLayout::stored_states(std::size_t block) const {
  const std::size_t weights = stores_weights() ? count_ : 0;
  const Range& elements = blocks_.at(block).elements;
  return {weights + states_ * elements.begin, weights + states_ * elements.end};
}

std::array<std::size_t, kWindowBuffers> OffloadedLayout::buffers() const {
  std::array<std::size_t, kWindowBuffers> sizes{};
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    std::size_t& size = sizes.at(b % kWindowBuffers);
    size = std::max(size, per_element() * blocks_[b].elements.size());
  }
  return sizes;
}

std::size_t OffloadedLayout::window() const {
  const auto sizes = buffers();
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

Range OffloadedLayout::in_buffer(std::size_t tensor, std::size_t array) const {
  const Range& block = blocks_[block_of(tensor)].elements;
  const Range& place = places_[tensor];
  const std::size_t begin = array * block.size() + place.begin - block.begin;
  return {begin, begin + place.size()};
}

Range OffloadedLayout::weights_in_buffer(std::size_t tensor) const { return in_buffer(tensor, 0); }

Range OffloadedLayout::state_in_buffer(std::size_t tensor, std::size_t state) const {
  return in_buffer(tensor, (stores_weights() ? 1 : 0) + state);
}

}  // namespace ultra::zero
