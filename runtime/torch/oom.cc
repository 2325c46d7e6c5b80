/* oom.cc: out of memory, the way the framework expects it. PyTorch does not look at the address that a
 * pluggable allocator returns: only an exception tells it that there is none, and only its own
 * c10::OutOfMemoryError becomes torch.OutOfMemoryError, which programs catch to make a batch smaller.
 *
 * That class lives in libc10.so. Linking to it would tie this library to one build of PyTorch, and
 * compiling against its headers would need a compiler where training runs, so the class is used by
 * its symbols in the libc10 that the process has: the constructor, which all versions export (or that of
 * c10::Error, its base, and the derived class's table of functions), and the type's description. The object
 * is larger than we know; ROOM is ample (it is 176 bytes in PyTorch 2.13). Its destructor is the
 * first function of its table, as std::exception declares it and the Itanium C++ ABI lays it out.
 *
 * Where there is no libc10, or one with other strings (wheels before 2.6 were built for the old
 * std::string), it is a std::bad_alloc with the message, which PyTorch makes a RuntimeError of.
 */
#include <cstdint>
#include <cxxabi.h>
#include "../old_dl.h"
#include <exception>
#include <new>
#include <string>
#include <typeinfo>

namespace {

constexpr std::size_t ROOM = 1024;

struct source_location { // as c10::SourceLocation
    const char *function;
    const char *file;
    std::uint32_t line;
};

using constructor = void (*)(void *self, source_location, std::string);
using destructor = void (*)(void *self);

struct torch_class {
    constructor make, make_base;
    void **table; // of the derived class, as the symbol has it; functions begin at [2]
    std::type_info *type;

    torch_class()
    {
#define STRING_ARGUMENT "ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        void *c10 = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
        make = symbol<constructor>(c10, "_ZN3c1016OutOfMemoryErrorC1" STRING_ARGUMENT);
        make_base = symbol<constructor>(c10, "_ZN3c105ErrorC2" STRING_ARGUMENT);
        table = symbol<void **>(c10, "_ZTVN3c1016OutOfMemoryErrorE");
        type = symbol<std::type_info *>(c10, "_ZTIN3c1016OutOfMemoryErrorE");
#undef STRING_ARGUMENT
    }

    template <typename T> static T symbol(void *library, const char *name)
    {
        return library ? reinterpret_cast<T>(dlsym(library, name)) : nullptr;
    }

    bool usable() const { return type && (make || (make_base && table)); }

    [[noreturn]] void raise(const std::string &message) const
    {
        void *object = abi::__cxa_allocate_exception(ROOM);
        try {
            (make ? make : make_base)(object, source_location{"malloc", "stweaver", 0}, message);
        } catch (...) {
            abi::__cxa_free_exception(object);
            throw;
        }
        if (!make)
            *static_cast<void **>(object) = table + 2;
        abi::__cxa_throw(object, type, (*static_cast<destructor **>(object))[0]);
    }
};

class out_of_memory : public std::bad_alloc {
    std::string message;

  public:
    explicit out_of_memory(const std::string &text) : message(text) {}
    const char *what() const noexcept override { return message.c_str(); }
};

} // namespace

extern "C" __attribute__((visibility("hidden"), noreturn)) void stwt_throw_out_of_memory(const char *message)
{
    static const torch_class c10;
    std::string text;
    text.assign(message); /* the constructor would be a symbol of our own to export */
    if (c10.usable())
        c10.raise(text);
    throw out_of_memory(text);
}
