// Memory for arrays of NumPy that ends, or begins, at a page that nobody may read or write.

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// NumPy's PyDataMem_Handler.
struct Handler {
    char name[127];
    uint8_t version;
    void* context;
    void* (*allocate)(void*, size_t);
    void* (*allocate_zeros)(void*, size_t, size_t);
    void* (*reallocate)(void*, void*, size_t);
    void (*release)(void*, void*, size_t);
};

static int at_the_start;

// What fresh memory is filled with: what nobody has written is no number that tests expect.
enum { FILLED = 0xCB };

// What is kept of an array beside its pages: its size, and while it is free the next one of as many pages.
struct Block {
    size_t size;
    struct Block* next;
};

// Blocks of a few pages are kept when they are free: to map and protect pages takes longer than the tests themselves.
enum { KEPT = 8 };
static struct Block* kept[KEPT + 1];

static size_t pages_of(size_t size) {
    const size_t page = sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page;
}

// A page of its own; a protected page; the array's pages; a protected page.
static struct Block* mapped(size_t pages) {
    const size_t page = sysconf(_SC_PAGESIZE);
    char* base = mmap(NULL, (pages + 3) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    mprotect(base + page, page, PROT_NONE);
    mprotect(base + (2 + pages) * page, page, PROT_NONE);
    return (struct Block*)base;
}

static void* allocate(void* context, size_t size) {
    const size_t page = sysconf(_SC_PAGESIZE), asked = size ? size : 1, pages = pages_of(asked);
    struct Block* block = pages <= KEPT ? kept[pages] : NULL;
    if (block) kept[pages] = block->next;
    else if (!(block = mapped(pages))) return NULL;
    block->size = asked;
    char* first = (char*)block + 2 * page;
    memset(first, FILLED, pages * page);
    return at_the_start ? first : first + pages * page - asked;
}

static struct Block* block_of(void* place) {
    const size_t page = sysconf(_SC_PAGESIZE);
    return (struct Block*)((uintptr_t)place / page * page - 2 * page);
}

// End the process if the rest of an array's pages, on its side without a protected page, was written to.
static void check_rest(struct Block* block, size_t pages) {
    const size_t page = sysconf(_SC_PAGESIZE), rest = pages * page - block->size;
    const unsigned char* place = (unsigned char*)block + 2 * page + (at_the_start ? block->size : 0);
    for (size_t i = 0; i < rest; ++i) {
        if (place[i] == FILLED) continue;
        fprintf(stderr, "memory beside an array of %zu bytes was written to\n", block->size);
        abort();
    }
}

static void release(void* context, void* place, size_t size) {
    if (!place) return;
    struct Block* block = block_of(place);
    const size_t pages = pages_of(block->size);
    check_rest(block, pages);
    if (pages > KEPT) {
        munmap(block, (pages + 3) * sysconf(_SC_PAGESIZE));
        return;
    }
    block->next = kept[pages];
    kept[pages] = block;
}

static void* allocate_zeros(void* context, size_t count, size_t size) {
    void* place = allocate(context, count * size);
    if (place) memset(place, 0, count * size);
    return place;
}

static void* reallocate(void* context, void* place, size_t size) {
    void* moved = allocate(context, size);
    if (moved && place) {
        const size_t before = block_of(place)->size;
        memcpy(moved, place, before < size ? before : size);
        release(context, place, before);
    }
    return moved;
}

struct Handler* handler(int start) {
    static struct Handler found = {"guard pages", 1, NULL, allocate, allocate_zeros, reallocate, release};
    at_the_start = start;
    return &found;
}
