#include "chapters/04_zero/offload/offloaded_layout.hpp"

#include <algorithm>
#include <numeric>

namespace ultra::zero {

OffloadedLayout::OffloadedLayout(std::span<const OffloadedTensor> tensors, std::size_t least,
                                 Weights weights)
    : weights_(weights) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (blocks_.empty() || blocks_.back().elements.size() >= least) {
      blocks_.push_back(
          {.tensors = {i, i}, .elements = {count_, count_}, .states = {numbers_, numbers_}});
    }
    const auto& [elements, states] = tensors[i];
    places_.push_back({count_, count_ + elements});
    states_.push_back({.number = states, .begin = numbers_});
    count_ += elements;
    numbers_ += states * elements;
    blocks_.back().tensors.end = i + 1;
    blocks_.back().elements.end = count_;
    blocks_.back().states.end = numbers_;
    block_of_.push_back(blocks_.size() - 1);
  }
}

Range OffloadedLayout::stored_states(std::size_t block) const {
  const Range& states = blocks_.at(block).states;
  return {weights_of(count_) + states.begin, weights_of(count_) + states.end};
}

std::array<std::size_t, kWindowBuffers> OffloadedLayout::buffers() const {
  std::array<std::size_t, kWindowBuffers> sizes{};
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    std::size_t& size = sizes.at(b % kWindowBuffers);
    size = std::max(size, weights_of(blocks_[b].elements.size()) + blocks_[b].states.size());
  }
  return sizes;
}

std::size_t OffloadedLayout::window() const {
  const auto sizes = buffers();
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

Range OffloadedLayout::weights_in_buffer(std::size_t tensor) const {
  const std::size_t first = blocks_[block_of(tensor)].elements.begin;
  return {places_[tensor].begin - first, places_[tensor].end - first};
}

Range OffloadedLayout::state_of(std::size_t tensor, std::size_t state) const {
  const std::size_t begin = states_.at(tensor).begin + state * places_[tensor].size();
  return {begin, begin + places_[tensor].size()};
}

Range OffloadedLayout::stored_state(std::size_t tensor, std::size_t state) const {
  const Range place = state_of(tensor, state);
  return {weights_of(count_) + place.begin, weights_of(count_) + place.end};
}

Range OffloadedLayout::state_in_buffer(std::size_t tensor, std::size_t state) const {
  const OffloadedBlock& block = blocks_[block_of(tensor)];
  const Range place = state_of(tensor, state);
  const std::size_t weights = weights_of(block.elements.size());
  return {weights + place.begin - block.states.begin, weights + place.end - block.states.begin};
}

}  // namespace ultra::zero
