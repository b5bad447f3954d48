// Tests are compiled without optimisation, and so are their copies of the standard library's inline
// functions. The linker keeps the first copy of each for the whole program, for what is tested, too: these
// stand first in every test (UltraTests.cmake), and are optimised.
#include <memory>
#include <string>
#include <vector>

template struct std::char_traits<char>;
template class std::allocator<char>;
template class std::allocator<std::string>;
template class std::basic_string<char>;
template class std::vector<std::string>;
template class std::vector<double>;
template class std::vector<float>;
template class std::vector<int>;
template class std::vector<std::size_t>;
